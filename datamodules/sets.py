"""ImageNet-scale data sets that lie in folders: one datamodule for the families of a table."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from .. import HoldfastError
from .concatenation import Concatenation, Part
from .families import EXAMPLES, FAMILIES, Counted, counted
from .sources.base import EXTENSIONS, UNREAD, Broken, Crop, ImageFolder

DEPTH = 4  # folders between the root and the class folders, at most


class ImageSet(Concatenation):
    """A family of data sets for ImageNet models, or some of its sets, each image once.

    The sets are found below the folder by their class folders. Labels are ImageNet's class numbers,
    and the backbone keeps its 1,000 logits; where a folder stands for several classes (ImageNet-D,
    ObjectNet, BG Challenge, ImageNet-Hard), labels are [B,K] and a prediction that is one of them is
    right, as in the official evaluations. Images of other classes (NINCO) have label 1000, so that all
    predictions are wrong. With labels="folders" they are the positions of the sorted class folders, for
    a backbone with as many logits: "...@imagenet-r" or "...@FOLDER".

    Args:
        name: of the family, see FAMILIES.
        folder: where it lies.
        parts: paths of sets, relative to the folder, or patterns such as "*/fog/5" (in quotes on the
            command line too); default: all sets.
        mapping: JSON file, see `families.mapped`; default: the family's own.
        epochs: times through all parts, may be a fraction; None for ever.
        drop_last: leave out what does not fill a batch, in each part, as AETTA does.
        broken: what happens at an undecodable file: "refuse" or "skip".
    """

    def __init__(
        self,
        name: str,
        folder: str,
        parts: list[str] | None = None,
        labels: Literal["imagenet", "folders"] = "imagenet",
        mapping: str | None = None,
        size: int = 224,
        crop: Crop = "center",
        epochs: float | None = 1,
        seed: int = 43,
        batch_size: int = 64,
        num_workers: int = 1,
        start: int = 0,
        broken: Broken = "refuse",
        drop_last: bool = False,
    ) -> None:
        if name not in FAMILIES:
            raise HoldfastError(f"there is no data set '{name}': choose {', '.join(FAMILIES)}.")
        if labels == "folders" and FAMILIES[name].folders != "synsets":
            raise HoldfastError(
                f"labels='folders' needs class folders named by synset: leave it out for {name}."
            )
        meaning = counted(name, mapping)
        places = chosen(name, Path(folder), sets_in(Path(folder), meaning), parts)
        groups = class_groups(name, [Path(folder, place) for place in places], meaning)
        if labels == "folders":
            groups = {name: [k] for k, name in enumerate(sorted(groups))}
        found = []
        for place in places:
            source = AnyOf(Path(folder, place), groups, size, crop, broken)
            source.dataset.border = FAMILIES[name].border
            found.append(Part((described(name, place),), source, len(source)))
        super().__init__(
            *(found, True, epochs, seed, "imagenet", None, batch_size, num_workers),
            start=start,
            drop_last=drop_last,
        )


class AnyOf(ImageFolder):
    """Images of classes that stand for one or several others: labels [B], or [B,K] filled up with -1."""

    def __init__(
        self, root: Path, groups: dict[str, list[int]], size: int, crop: Crop, broken: Broken
    ) -> None:
        super().__init__(root, size, crop, broken, {name: k for k, name in enumerate(groups)})
        width = max(len(group) for group in groups.values())
        rows = [group + [-1] * (width - len(group)) for group in groups.values()]
        # The last but one is found by the UNREAD of an image that could not be read.
        self.numbers = torch.tensor([*rows, [UNREAD] * width, [-1] * width]).squeeze(1)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K]."""
        images, row = super().load(index, seed)
        return images, self.numbers[row]


def chosen(name: str, root: Path, sets: list[str], parts: list[str] | None) -> list[str]:
    """The sets that were asked for, in the order of `parts`; refuses parts that are not there."""
    family = FAMILIES[name]
    wanted = sets if parts is None else [s for part in parts for s in sets if fnmatch(s, part)]
    missing = [part for part in parts or () if not any(fnmatch(s, part) for s in sets)]
    if missing or (parts is None and len(sets) != family.sets):
        several = family.sets > 1
        raise HoldfastError(
            f"{root} has {len(sets)} sets of {name}{', not ' + missing[0] if missing else ''}: "
            f"expected {f'{family.sets} sets of ' if several else ''}files like "
            f"{root}/{'SET/' if several else ''}{EXAMPLES[family.folders]}/NAME.jpg "
            f"(from {family.origin}){'; name those you have with parts' if sets else ''}."
        )
    return wanted


def sets_in(root: Path, meaning: Counted) -> list[str]:
    """Paths, relative to the root, of the folders that have class folders directly below them."""
    found, level = [], [root] if root.is_dir() else []
    for _ in range(DEPTH):
        deeper = []
        for folder in level:
            below = [child for child in sorted(folder.iterdir()) if child.is_dir()]
            if any(meaning(child.name) and holds_images(child) for child in below):
                found.append(folder.relative_to(root).as_posix())
            else:
                deeper += below
        level = deeper
    return sorted(found)


def holds_images(folder: Path) -> bool:
    return any(child.name.lower().endswith(EXTENSIONS) for child in folder.iterdir())


def class_groups(name: str, places: list[Path], meaning: Counted) -> dict[str, list[int]]:
    """The class numbers that count under each class folder; folders that a mapping lacks are left out."""
    groups = {}
    for folder in (child for place in places for child in place.iterdir() if child.is_dir()):
        numbers = meaning(folder.name)
        if numbers is None and FAMILIES[name].folders != "mapping":
            raise HoldfastError(f"{folder} is not a class folder of {name}.")
        if numbers is not None:
            groups[folder.name] = numbers
    return groups


def described(name: str, part: str) -> tuple[str, float]:
    """A set as name and severity (0 if it has none), for the record."""
    path, _, last = part.rpartition("/")
    if path and last.replace(".", "", 1).isdigit():
        return path, float(last)
    return (name if part == "." else part), 0.0
