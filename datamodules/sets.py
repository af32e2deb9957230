"""ImageNet-scale data sets that lie in folders: one datamodule and a table."""

import json
from collections.abc import Container
from pathlib import Path
from typing import Literal, NamedTuple

from .. import HoldfastError
from .concatenation import Concatenation, Part
from .imagenet import synsets
from .sources import EXTENSIONS, Broken, Crop, ImageFolder


class Family(NamedTuple):
    """What a family's folder looks like: SET/.../CLASS/IMAGE, with as many sets."""

    sets: int
    classes: Literal["synsets", "numbers", "mapping", "outside"]  # names of the class folders
    origin: str
    border: int = 0  # pixels around each image that do not belong to it


FAMILIES = {
    "imagenet-c": Family(75, "synsets", "https://zenodo.org/records/2235448"),
    "imagenet-c-bar": Family(
        50, "synsets", "https://github.com/facebookresearch/augmentation-corruption"
    ),
    "imagenet-3dcc": Family(60, "synsets", "https://github.com/EPFL-VILAB/3DCommonCorruptions"),
    "imagenet-v2": Family(3, "numbers", "https://huggingface.co/datasets/vaishaal/ImageNetV2"),
    "imagenet-r": Family(1, "synsets", "https://github.com/hendrycks/imagenet-r"),
    "imagenet-a": Family(1, "synsets", "https://github.com/hendrycks/natural-adv-examples"),
    "imagenet-sketch": Family(1, "synsets", "https://github.com/HaohanWang/ImageNet-Sketch"),
    "imagenet-d": Family(6, "mapping", "https://ai.bu.edu/M3SDA (DomainNet; Rusak et al. 2022)"),
    "stylized": Family(1, "synsets", "https://github.com/rgeirhos/Stylized-ImageNet"),
    "objectnet": Family(1, "mapping", "https://objectnet.dev", border=2),
    "ninco": Family(1, "outside", "https://zenodo.org/records/8013288"),
    "imagenet-hard": Family(1, "synsets", "https://huggingface.co/datasets/taesiri/imagenet-hard"),
    "cartoon-drawing": Family(2, "synsets", "https://zenodo.org/records/6801109"),
    "bg-challenge": Family(8, "mapping", "https://github.com/MadryLab/backgrounds_challenge"),
    "imagenet-patch": Family(10, "synsets", "https://zenodo.org/records/6568778"),
    "imagenet-c-patch": Family(75, "synsets", "your own copy of ImageNet-C with patches"),
    "obfuscations": Family(
        3, "synsets", "https://github.com/google-deepmind/image_obfuscation_benchmark"
    ),
}
DEPTH = 4  # folders between the root and the class folders, at most


class ImageSet(Concatenation):
    """A family of data sets for ImageNet models, or some of its sets, each image once.

    The sets are found below the folder by their class folders; `parts` names some of them by their
    path, such as "fog/3", and for an estimate on a single set, one. Labels are ImageNet's class numbers,
    which leaves the backbone all 1,000 logits. With labels="folders" they are the positions of the
    sorted class folders, for a backbone with as many logits: "...@imagenet-r", "...@FOLDER" or
    "...@MAPPING.json". Images outside ImageNet's classes (NINCO) have label 1000, so all predictions
    are wrong.

    Args:
        name: of the family, see FAMILIES.
        folder: where it lies.
        parts: paths of sets, relative to the folder; default: all of the family.
        mapping: JSON file {class folder: [synsets]}, for families whose class folders have other names.
        epochs: times through all parts, may be a fraction; None for ever.
        broken: what happens at an undecodable file: "refuse" or "skip".
    """

    def __init__(
        self,
        name: str,
        folder: str,
        parts: list[str] | None = None,
        labels: Literal["imagenet", "folders"] | None = None,
        mapping: str | None = None,
        size: int = 224,
        crop: Crop = "center",
        epochs: float | None = 1,
        seed: int = 43,
        batch_size: int = 64,
        num_workers: int = 1,
        start: int = 0,
        broken: Broken = "refuse",
    ) -> None:
        if name not in FAMILIES:
            raise HoldfastError(f"there is no data set '{name}': choose {', '.join(FAMILIES)}.")
        family, root = FAMILIES[name], Path(folder)
        groups = class_names(name, family, mapping)
        sets = sets_in(root, groups)
        missing = sorted(set(parts or ()) - set(sets))
        if missing or (parts is None and len(sets) != family.sets):
            kind = {"synsets": "n01440764", "numbers": "0", "outside": "CLASS"}
            wanted = f"{family.sets} sets of " if family.sets > 1 else ""
            raise HoldfastError(
                f"{folder} has {len(sets)} sets of {name}{', not ' + missing[0] if missing else ''}: "
                f"expected {wanted}files like {folder}/{'SET/' if family.sets > 1 else ''}"
                f"{kind.get(family.classes) or next(iter(groups or ['CLASS']))}/NAME.jpg "
                f"(from {family.origin}); name those you have with parts."
            )
        numbers = class_labels(name, root, sets, groups, labels)
        found = []
        for part in parts or sets:
            source = ImageFolder(root / part, size, crop, broken, numbers)
            source.dataset.border = family.border
            found.append(Part((described(name, part),), source, len(source)))
        super().__init__(
            *(found, True, epochs, seed, "imagenet", None, batch_size, num_workers), start=start
        )


def class_names(name: str, family: Family, mapping: str | None) -> dict[str, list[str]] | None:
    """The synsets of every class folder that the family may have; None for any folder."""
    if family.classes == "outside":
        return None
    if family.classes == "synsets":
        return {synset: [synset] for synset in synsets()}
    if family.classes == "numbers":
        return {str(number): [synset] for synset, number in synsets().items()}
    if mapping is None or not Path(mapping).is_file():
        raise HoldfastError(
            f"the class folders of {name} are not named by synset: give mapping=FILE, a JSON file "
            '{"CLASS FOLDER": ["n01440764", ...], ...} made from what comes with the data set '
            f"({family.origin})."
        )
    return json.loads(Path(mapping).read_text())


def sets_in(root: Path, names: Container[str] | None) -> list[str]:
    """Paths, relative to the root, of the folders that have class folders directly below them."""
    found, level = [], [root] if root.is_dir() else []
    for _ in range(DEPTH):
        deeper = []
        for folder in level:
            below = [child for child in sorted(folder.iterdir()) if child.is_dir()]
            if any(
                holds_images(child) if names is None else child.name in names for child in below
            ):
                found.append(folder.relative_to(root).as_posix())
            else:
                deeper += below
        level = deeper
    return sorted(found)


def holds_images(folder: Path) -> bool:
    return any(child.name.lower().endswith(EXTENSIONS) for child in folder.iterdir())


def class_labels(
    name: str, root: Path, sets: list[str], groups: dict[str, list[str]] | None, labels: str | None
) -> dict[str, int]:
    """The label of every class folder."""
    if groups is None:
        return {child.name: 1000 for part in sets for child in (root / part).iterdir()}
    single = all(len(group) == 1 for group in groups.values())
    if labels == "imagenet" and not single:
        raise HoldfastError(
            f"some classes of {name} stand for several ImageNet classes: use labels='folders' and a "
            "backbone ...@MAPPING.json with the same mapping."
        )
    if labels == "folders" or not single:
        present = {child.name for part in sets for child in (root / part).iterdir()}
        used = sorted(groups if FAMILIES[name].classes == "mapping" else present & groups.keys())
        return {folder: number for number, folder in enumerate(used)}
    return {folder: synsets()[group[0]] for folder, group in groups.items()}


def described(name: str, part: str) -> tuple[str, float]:
    """A set as name and severity (0 if it has none), for the record."""
    path, _, last = part.rpartition("/")
    if path and last.replace(".", "", 1).isdigit():
        return path, float(last)
    return (name if part == "." else part), 0.0
