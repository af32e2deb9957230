"""Images of torchvision-style data sets, and of folders of classes."""

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms import functional as TF

from ... import HoldfastError, in_range
from ...files import reason
from ..counter import uniforms
from .image_source import UNREAD, ImageSource, Unreadable

Crop = Literal["random", "center"] | None
Broken = Literal["refuse", "skip"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")  # Pillow gives EPS to Ghostscript
ATTEMPTS = 10  # to find a random crop that fits, as in torchvision


class DatasetSource(ImageSource):
    """Any torchvision-style data set: `dataset[i]` is (PIL image, tensor or array, label).

    crop="random": flip with probability 1/2, then torchvision's RandomResizedCrop of the full
    image, both drawn from the seed alone; "center": Resize(size * 256 / 224), then
    CenterCrop(size), of images that do not have the right size already (those of ImageNet-C do);
    None: all have it. Tensors are [C,H,W], arrays [H,W,C]; both uint8, or floats in [0,1] without
    mean/std normalisation.
    """

    broken: Broken = "refuse"

    def __init__(
        self,
        dataset: Any,
        size: int = 224,
        crop: Crop = "random",
        classes: int | None = None,
    ) -> None:
        if crop not in ("random", "center", None):
            raise HoldfastError(f"Unknown crop {crop!r}. Choose 'random', 'center' or None.")
        if classes is None and not hasattr(dataset, "classes"):
            raise HoldfastError("The data set has no attribute `classes`. Pass classes=COUNT.")
        in_range(1, size=size)
        self.dataset = dataset
        self.size = size
        self.crop = crop
        self.classes = len(dataset.classes) if classes is None else classes

    def __len__(self) -> int:
        return len(self.dataset)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B]."""
        draws = uniforms(seed, 1 + 4 * ATTEMPTS).tolist()
        images, labels = [], []
        for i, numbers in zip(index.tolist(), draws, strict=True):
            try:
                image, label = self._item(i)
            except Unreadable as error:
                if self.broken == "refuse":
                    raise
                warnings.warn(f"left out: {error}", stacklevel=1)
                image, label = Image.new("RGB", (self.size, self.size)), UNREAD
            image = self._cropped(as_pil(image), numbers)
            images.append(torch.from_numpy(np.array(image)).permute(2, 0, 1))
            labels.append(int(label))
        return torch.stack(images), torch.tensor(labels)

    def labels_of(self, index: Tensor) -> Tensor:
        """Labels from the data set's `targets`, as in torchvision; otherwise images are read."""
        targets = getattr(self.dataset, "targets", None)
        if targets is None:
            return super().labels_of(index)
        return torch.as_tensor([int(targets[i]) for i in index.tolist()])

    def _item(self, index: int) -> tuple[Any, Any]:
        try:
            return self.dataset[index]
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise Unreadable(
                f"image {index} of the data set cannot be read ({error}): replace or remove it."
            ) from error

    def _cropped(self, image: Image.Image, numbers: list[float]) -> Image.Image:
        if self.crop == "random":
            if numbers[0] < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            left, top, width, height = random_box(*image.size, numbers[1:])
            return TF.resized_crop(image, top, left, height, width, [self.size, self.size])
        if image.size == (self.size, self.size):
            return image
        if self.crop == "center":
            return TF.center_crop(TF.resize(image, self.size * 256 // 224), [self.size])
        raise HoldfastError(
            f"An image of {image.width}x{image.height} does not fit size={self.size}. Choose "
            "crop='random' or crop='center', or the right size."
        )


def as_pil(image: Image.Image | Tensor | np.ndarray) -> Image.Image:
    """Any 8-bit or [0,1] image as PIL RGB. Raises HoldfastError if it is neither."""
    if isinstance(image, Image.Image):
        if image.mode[0] in "IF":  # Pillow would cut off what exceeds 255
            raise HoldfastError(f"the image is of Pillow's mode {image.mode}, not of 8 bits")
        return image.convert("RGB")
    if isinstance(image, np.ndarray):
        image = torch.from_numpy(image)
        image = image.permute(2, 0, 1) if image.ndim == 3 else image
    if image.is_floating_point():
        if image.min() < 0 or image.max() > 1:
            raise HoldfastError("Float images must be in [0,1]. Leave out the normalisation.")
        image = (image * 255).round().to(torch.uint8)
    if image.dtype != torch.uint8:
        raise HoldfastError(f"Images must be uint8 or floats in [0,1], not {image.dtype}.")
    return TF.to_pil_image(image).convert("RGB")


def random_box(width: int, height: int, numbers: Sequence[float]) -> tuple[int, int, int, int]:
    """RandomResizedCrop's (left, top, width, height): area 8 % to 100 %, ratio 3/4 to 4/3."""
    for area, ratio, x, y in zip(*[iter(numbers)] * 4, strict=True):
        pixels = (0.08 + 0.92 * area) * width * height
        aspect = math.exp((2 * ratio - 1) * math.log(4 / 3))
        w, h = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(x * (width - w + 1)), int(y * (height - h + 1)), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


class ImageFolder(DatasetSource):
    """The sorted images under root/CLASS/; labels are positions of the sorted class folders.

    broken: "refuse" stops at a file that cannot be decoded, "skip" leaves it out, and the stream
        counts it.
    labels: labels of the class folders, instead of their positions; -1 if unknown. Other folders are left
        out.
        "unknown": all images under root, in folders or not, without labels.
    """

    partial = False  # whether some folders that have labels may be missing

    def __init__(
        self,
        root: str | Path,
        size: int = 224,
        crop: Crop = "random",
        broken: Broken = "refuse",
        labels: dict[str, int] | Literal["unknown"] | None = None,
    ) -> None:
        found = class_folders(Path(root))
        wanted = labels if isinstance(labels, dict) and found and not self.partial else ()
        if absent := [name for name in wanted if name not in found]:
            raise HoldfastError(
                f"{root} has no folder {absent[0]!r}, which labels contains. It has "
                f"{', '.join(found[:20])}."
            )
        if isinstance(labels, str) and labels != "unknown":
            raise HoldfastError(
                f"Unknown labels={labels!r}. Pass a label for each class folder, or 'unknown'."
            )
        files = _Files(Path(root), labels)
        super().__init__(files, size, crop, files.classes)
        if broken not in ("refuse", "skip"):
            raise HoldfastError(f"Unknown broken={broken!r}. Choose 'refuse' or 'skip'.")
        self.root, self.broken = Path(root), broken

    def name(self, index: int) -> tuple[str, str]:
        path = Path(self.dataset.files[index][0])
        return [*path.relative_to(self.root).parent.parts, ""][0], path.name


class _Files:
    """(image, label) of every image file under root/CLASS/, or root if labels are unknown, at any depth."""

    border = 0  # pixels around each image that are cut off

    def __init__(self, root: Path, labels: dict[str, int] | str | None) -> None:
        names = class_folders(root)
        if isinstance(labels, str):
            folders = {root: -1} if root.is_dir() else {}
        elif labels is None:
            folders = {root / name: label for label, name in enumerate(names)}
        else:
            folders = {root / name: labels[name] for name in names if name in labels}
        self.classes = (
            max((labels if isinstance(labels, dict) else folders).values(), default=-1) + 1
        )
        self.files = [
            (path, label) for folder, label in folders.items() for path in _images(folder)
        ]
        if not self.files:
            raise HoldfastError(
                f"no images in {root}: expected files like {root}/CLASS/NAME.jpg"
                + ("." if isinstance(labels, str) else ", or labels='unknown'.")
            )

    def __len__(self) -> int:
        return len(self.files)

    @cached_property
    def targets(self) -> list[int]:
        return [label for _, label in self.files]

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        path, label = self.files[index]
        try:
            with Image.open(path, formats=FORMATS) as image:
                return ImageOps.crop(as_pil(image), self.border), label
        except Exception as error:  # Pillow raises many types of errors for damaged files
            raise Unreadable(
                f"{path} cannot be read as an image ({error}): replace or remove it; a test can also "
                "leave such files out (broken='skip')."
            ) from error


def class_folders(root: Path) -> list[str]:
    """Names of the folders in `root`, sorted; none if it is no folder."""
    return sorted(f.name for f in root.iterdir() if f.is_dir()) if root.is_dir() else []


def _images(folder: Path) -> list[str]:
    try:
        return sorted(_below(str(folder)))
    except OSError as error:
        raise HoldfastError(f"{folder} cannot be read ({reason(error)}). Fix the folder.") from None


def _below(folder: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """The image files in a folder and its subfolders; links to a parent folder are not followed."""
    here = os.path.realpath(folder)
    if here in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(EXTENSIONS) and not entry.is_dir():
                yield entry.path
            elif entry.is_dir():
                yield from _below(entry.path, (*above, here))
