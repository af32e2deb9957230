"""Images in folders of classes, and in ImageNet's."""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch.utilities import rank_zero_warn
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.datasets.folder import is_image_file

from ... import HoldfastError
from ...files import reason
from ...imagenet import class_folders, no_content, synsets
from .dataset import Crop, DatasetSource, class_number, unreadable
from .jpegs import decode
from .pixels import FORMATS, as_pil

_SPLITS = {"train", "val", "valid", "validation", "test"}


class ImageFolder(DatasetSource):
    """The sorted images under root/CLASS/; hidden folders and files are ignored.

    labels: labels of the class folders, as a mapping; -1 if unknown, a list if several are correct, all
            of one length, padded with -1. Other folders are left out.
        "folders": their positions in alphabetical order, as in torchvision.
        "numbers": the numbers that are their names.
        None: "numbers", with a warning if the two differ, if all names are numbers; else "folders".
        "unknown": all images under root, in folders or not, without labels.

    Raises HoldfastError if a folder whose position is a label has no images.
    """

    border = 0  # pixels around each image that are cut off

    def __init__(
        self,
        root: str | Path,
        size: int | None = None,
        crop: Crop = "center",
        labels: Mapping[str, int | list[int]]
        | Literal["folders", "numbers", "unknown"]
        | None = None,
    ) -> None:
        self.root = Path(root)
        if isinstance(labels, Mapping) and labels:
            of_folder = {
                name: class_number(label, f"labels[{name!r}]") for name, label in labels.items()
            }
        else:
            of_folder = _labels_by(str(labels or ""), self.root)
        images = {name: _images_in(self.root / name) for name in sorted(of_folder)}
        files = [(path, of_folder[name]) for name, paths in images.items() for path in paths]
        if not files:
            raise HoldfastError(
                f"no images in {root}: expected files like {root}/CLASS/NAME.jpg"
                + ("." if labels == "unknown" else ", or labels='unknown'.")
            )
        if not isinstance(labels, Mapping) and (empty := [n for n in images if not images[n]]):
            raise HoldfastError(
                f"{self.root / empty[0]} contains no images, but would be a class. Remove it, or pass "
                "labels={FOLDER: NUMBER, ...} if it is one."
            )
        self.labels = torch.tensor([label for _, label in files])
        classes = int(torch.tensor(list(of_folder.values())).max()) + 1
        super().__init__([path for path, _ in files], size, crop, classes)

    def item(self, index: int) -> tuple[Image.Image, Any]:
        path, label = self.dataset[index], self.labels[index]
        try:
            with Image.open(path, formats=FORMATS) as image:
                return ImageOps.crop(as_pil(image), self.border), label.tolist()
        except Exception as error:  # Pillow raises many types of errors for damaged files
            raise unreadable(path, error) from error

    def file(self, index: int) -> bytes:
        """The bytes of an image's file. Raises HoldfastError if it cannot be read."""
        path = Path(self.dataset[index])
        try:
            return path.read_bytes()
        except OSError as error:
            raise unreadable(str(path), error) from error

    def decoded(
        self, files: list[Tensor], index: Tensor, seed: Tensor, device: torch.device
    ) -> Tensor:
        """What `load` gives, from the files' bytes (uint8 [N] each), on a device.

        Pixels differ from those of `load` by a level where images are resized, and as nvJPEG differs from
        libjpeg. Raises HoldfastError if a file is not an image.
        """
        try:
            images = decode(files, device)
        except Exception:  # Pillow raises many types of errors for damaged files
            for number in index.tolist():
                self.item(number)  # says which file it is
            raise
        if border := self.border:
            images = [image[:, border:-border, border:-border] for image in images]
        pairs = zip(images, self.draws(seed), strict=True)
        return torch.stack([self.cropped(*pair) for pair in pairs])

    def labels_of(self, index: Tensor) -> Tensor:
        return self.labels[index]

    @property
    def content(self) -> str:  # type: ignore[override]
        """How images are cropped, and a hash of their names; no path."""
        names = "\n".join("/".join(self.name(number)) for number in range(len(self)))
        digest = hashlib.sha256(names.encode()).hexdigest()[:12]
        return f"{super().content}, names {digest}"

    def name(self, index: int) -> tuple[str, str]:
        path = Path(self.dataset[index])
        return [*path.relative_to(self.root).parent.parts, ""][0], path.name


class ImageNet(ImageFolder):
    """Images under root/SYNSET/, of some or all of the 1,000 classes, with ImageNet's labels.

    The validation set of https://image-net.org is one folder: sort it into folders named by synset.
    """

    def __init__(self, root: str | Path, size: int | None = None, crop: Crop = "center") -> None:
        folders = class_folders(Path(root))
        if not has_synsets(root):
            raise HoldfastError(
                f"{root} is not a folder of ImageNet classes. Expected files like "
                f"{root}/n01440764/NAME.JPEG (from https://image-net.org, sorted by synset)."
            )
        if others := [name for name in folders if name not in synsets()]:
            raise HoldfastError(f"{Path(root, others[0])} is not an ImageNet class. Remove it.")
        super().__init__(root, size, crop, {name: synsets()[name] for name in folders})
        self.classes = len(synsets())


def has_synsets(root: str | Path) -> bool:
    """Whether some folder in `root` is named by an ImageNet synset."""
    return any(name in synsets() for name in class_folders(Path(root)))


def _labels_by(rule: str, root: Path) -> dict[str, int | list[int]]:
    """The label of each class folder by the rule "folders", "numbers", "unknown", or "" for the default.

    Raises HoldfastError if the rule is unknown, or the names are not different numbers.
    """
    names = class_folders(root)
    if rule == "unknown":
        return {"": -1}
    if not rule and names and set(names) <= _SPLITS and all(class_folders(root / n) for n in names):
        raise HoldfastError(
            f"{root} contains {' and '.join(names)}, which are parts of a data set, not classes. Pass one "
            f"of them, such as {root / names[-1]}, or labels='folders' (--labels folders) if they are."
        )
    positions = {name: number for number, name in enumerate(names)}
    numbers = {name: int(name) for name in names if name.isdecimal()}
    if rule == "folders" or (not rule and (not names or len(numbers) < len(names))):
        return dict(positions)
    if rule not in ("", "numbers"):
        raise HoldfastError(
            f"Unknown labels={rule!r}. Pass a label for each class folder, or 'folders', 'numbers' or "
            "'unknown'."
        )
    repeated = [number for number, count in Counter(numbers.values()).items() if count > 1]
    if repeated or len(numbers) < len(names):
        wrong = next(n for n in names if n not in numbers or numbers[n] in repeated)
        raise HoldfastError(
            f"The names of the folders in {root} are not different numbers: {wrong}. Pass "
            "labels={FOLDER: NUMBER, ...}."
        )
    if not rule and numbers != positions:
        rank_zero_warn(
            f"The class folders in {root} are named by numbers, which are used as labels, from "
            f"{min(numbers.values())} to {max(numbers.values())}. Pass labels='numbers' to confirm, "
            "or 'folders' (--labels folders) to number them alphabetically, as torchvision does."
        )
    return dict(numbers)


def _images_in(folder: Path) -> list[str]:
    """The paths of all image files in a folder and its sub-folders, sorted, without hidden ones.

    Raises HoldfastError if one of the folders cannot be read, or is a link to one that contains it.
    """

    def refuse(error: OSError) -> None:
        raise HoldfastError(
            f"{folder} cannot be read ({reason(error)}). Fix the folder or the path."
        )

    paths = []
    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = [name for name in folders if not no_content(name)]
        for path in filter(os.path.islink, (os.path.join(parent, name) for name in folders)):
            if Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(path)):
                raise HoldfastError(f"{path} is a link to a folder that contains it. Remove it.")
        paths += [os.path.join(parent, name) for name in names if not no_content(name)]
    return sorted(filter(is_image_file, paths))
