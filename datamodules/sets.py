"""Data sets in folders for ImageNet models: one datamodule for all families of assets/families.json."""

import json
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torchvision.datasets.folder import is_image_file as is_image

from .. import HoldfastError, one_of
from ..files import reason
from ..imagenet import class_folders, synsets
from .calibration import ASSETS
from .concatenation import Concatenation, Part
from .sources.dataset import Crop
from .sources.folder import ImageFolder

_EXAMPLES = {"synsets": "n01440764", "numbers": "0", "mapping": "CLASS", "outside": "CLASS"}

# The class numbers that count as right under a class folder's name; None if it is no class folder.
_ClassNumbers = Callable[[str], list[int] | None]


class Family(NamedTuple):
    """The layout of a family's folder: SET/.../CLASS/IMAGE, and its number of sets."""

    sets: int
    folders: Literal["synsets", "numbers", "mapping", "outside"]  # of the classes
    origin: str
    border: int = 0  # pixels around each image that do not belong to it
    parts: tuple[str, ...] = ()  # its sets, where its folder has others besides
    remark: str = ""  # on the download


FAMILIES = {
    name: Family(**row) for name, row in json.loads((ASSETS / "families.json").read_text()).items()
}


class ImageSet(Concatenation):
    """A family of data sets for ImageNet models, or some of its sets, each image once.

    The sets are found below the folder by their class folders. Labels are ImageNet's class numbers for
    a backbone with 1,000 logits; where a folder stands for several classes (ImageNet-D, ObjectNet,
    BG Challenge, ImageNet-Hard), labels are [B,K] and any of them is right, as in the official
    evaluations. Images of other classes (NINCO) have label 1000, so that all predictions are wrong.
    DomainNet-126 has its own labels 0 to 125. With labels="folders" labels are the positions of the
    sorted class folders, for a backbone with as many logits: "...@imagenet-r" or "...@FOLDER".

    Args:
        name: name of the family, see assets/families.json.
        folder: its path.
        parts: paths of sets, relative to the folder, or patterns such as "*/fog/5" (in quotes on the
            command line too); default: all sets.
        mapping: in_to_in9.json, which the BG Challenge needs.
        **kwargs: see `Concatenation`; AETTA drops incomplete batches (drop_last).
    """

    def __init__(
        self,
        name: str,
        folder: str,
        parts: list[str] | None = None,
        labels: Literal["imagenet", "folders"] = "imagenet",
        mapping: str | None = None,
        size: int | None = None,
        crop: Crop = "center",
        **kwargs: Any,
    ) -> None:
        one_of(*FAMILIES, name=name)
        if labels == "folders" and FAMILIES[name].folders != "synsets":
            raise HoldfastError(
                f"labels='folders' needs class folders named by synset. Leave it out for {name}."
            )
        numbers_of, root = _class_numbers(name, mapping), Path(folder)
        sets = sorted(path.relative_to(root).as_posix() for path in _find_sets(root, numbers_of))
        chosen = _select_sets(name, root, sets, parts or list(FAMILIES[name].parts) or None)
        classes = _class_groups(name, [root / path for path in chosen], numbers_of)
        if labels == "folders":
            classes = {folder: number for number, folder in enumerate(classes)}
        all_parts = []
        for path in chosen:
            labelled = {c: classes[c] for c in class_folders(root / path) if c in classes}
            source = ImageFolder(root / path, size, crop, labelled)
            source.classes, source.border = len(classes), FAMILIES[name].border
            all_parts.append(Part((_name_and_severity(name, path),), source, len(source)))
        super().__init__(all_parts, precorrupted=True, table="imagenet", quality=None, **kwargs)


def _find_sets(root: Path, numbers_of: _ClassNumbers, depth: int = 4) -> list[Path]:
    """The folders that have class folders directly below them, the root or up to `depth` below it."""
    below = [root / name for name in class_folders(root)]
    if any(numbers_of(c.name) and any(map(is_image, map(str, c.iterdir()))) for c in below):
        return [root]
    return [
        path for child in below if depth > 1 for path in _find_sets(child, numbers_of, depth - 1)
    ]


def _select_sets(name: str, root: Path, sets: list[str], parts: list[str] | None) -> list[str]:
    """The requested sets, in the order of `parts`. Raises HoldfastError if one is missing."""
    family = FAMILIES[name]
    missing = [part for part in parts or () if not any(fnmatch(s, part) for s in sets)]
    if missing or (parts is None and len(sets) != family.sets):
        many = family.sets > 1
        raise HoldfastError(
            f"{root} has {len(sets)} sets of {name}{', not ' + missing[0] if missing else ''}: "
            f"expected {f'{family.sets} sets of ' if many else ''}files like "
            f"{root}/{'SET/' if many else ''}{_EXAMPLES[family.folders]}/NAME.jpg "
            f"(from {family.origin}{family.remark and '; ' + family.remark})"
            f"{'; name those you have with parts' if sets else ''}."
        )
    return sets if parts is None else [s for part in parts for s in sets if fnmatch(s, part)]


def _class_groups(
    name: str, paths: list[Path], numbers_of: _ClassNumbers
) -> dict[str, int | list[int]]:
    """The class numbers that count under each class folder, padded with -1 where some have several.

    Folders that a mapping lacks are left out. Raises HoldfastError if another is not among the classes.
    """
    groups = {}
    for folder in sorted({folder for path in paths for folder in class_folders(path)}):
        if (numbers := numbers_of(folder)) is not None:
            groups[folder] = numbers
        elif FAMILIES[name].folders != "mapping":
            raise HoldfastError(f"{folder} is not a class folder of {name}. Remove it.")
    width = max(map(len, groups.values()))
    if width == 1:
        return {folder: numbers[0] for folder, numbers in groups.items()}
    return {folder: numbers + [-1] * (width - len(numbers)) for folder, numbers in groups.items()}


def _name_and_severity(name: str, part: str) -> tuple[str, float]:
    """A set as name and severity (0 if it has none), for the record."""
    path, _, last = part.rpartition("/")
    if path and last.replace(".", "", 1).isdigit():
        return path, float(last)
    return (name if part == "." else part), 0.0


def _class_numbers(name: str, mapping: str | None) -> _ClassNumbers:
    """The classes of a family's class folders.

    ImageNet-D's table is that of Rusak et al. 2022 (bethgelab/robustness, examples/imagenet_d),
    ObjectNet's the one that comes with it (mappings/objectnet_to_imagenet_1k.json).

    Raises HoldfastError if a mapping is passed for a family that has none.
    """
    kind, classes = FAMILIES[name].folders, synsets()
    if name == "bg-challenge":
        return _groups_of_nine(mapping)
    if mapping is not None:
        raise HoldfastError(f"mapping is for bg-challenge only. Leave it out for {name}.")
    if kind == "outside":
        return lambda folder: [len(classes)]
    if kind == "synsets":
        return lambda folder: [classes[folder]] if folder in classes else None
    if kind == "mapping":  # {CLASS FOLDER: [synsets]}, or the folders of a family's own classes
        table = json.loads((ASSETS / f"classes-{name}.json").read_text())
        if isinstance(table, list):
            return {folder: [number] for number, folder in enumerate(table)}.get
        return {folder: [classes[s] for s in group] for folder, group in table.items()}.get

    def numbers(folder: str) -> list[int] | None:  # '0_391' means [0, 391]
        words = folder.split("_")
        valid = all(word.isdecimal() and int(word) < len(classes) for word in words)
        return [int(word) for word in words] if valid else None

    return numbers


def _groups_of_nine(mapping: str | None) -> _ClassNumbers:
    """The classes in each group of the BG Challenge, whose number begins the name of its folder.

    Args:
        mapping: in_to_in9.json, {class number: number of its group, or -1}.

    Raises HoldfastError if it is not that file.
    """
    groups: dict[str, list[int]] = {}
    try:
        for number, group in json.loads(Path(mapping or "in_to_in9.json").read_text()).items():
            groups.setdefault(f"{group:02d}", []).append(int(number))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise HoldfastError(
            f"bg-challenge needs in_to_in9.json ({reason(error)}). Pass mapping=FILE, the file from "
            f"{FAMILIES['bg-challenge'].origin}."
        ) from None
    return lambda folder: groups.get(folder.partition("_")[0])
