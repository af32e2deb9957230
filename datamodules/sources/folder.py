"""Images of torchvision-style data sets, of folders of classes, and of ImageNet's."""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.datasets.folder import is_image_file
from torchvision.transforms import functional as TF

from ... import HoldfastError, in_range, one_of
from ...files import reason
from ...imagenet import synsets
from ..counter import uniforms
from . import ImageSource

Crop = Literal["random", "center"] | None

_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")  # Pillow gives EPS to Ghostscript
_ATTEMPTS = 10  # to find a random crop that fits, as in torchvision


class DatasetSource(ImageSource):
    """Any torchvision-style data set: `dataset[i]` is (PIL image, tensor or array, label).

    crop="random": flip with probability 1/2, then torchvision's RandomResizedCrop of the full
    image, both drawn from the seed alone; "center": Resize(size * 256 / 224), then
    CenterCrop(size), of images that do not have the right size already (those of ImageNet-C do);
    None: all have it. Tensors are [C,H,W], arrays [H,W,C]; uint8, or floats in [0,1], not normalised.
    """

    def __init__(
        self, dataset: Any, size: int = 224, crop: Crop = "random", classes: int | None = None
    ) -> None:
        if crop is not None:
            one_of("random", "center", crop=crop)
        if classes is None and not hasattr(dataset, "classes"):
            raise HoldfastError("The data set has no attribute `classes`. Pass classes=COUNT.")
        in_range(1, size=size)
        self.dataset, self.size, self.crop = dataset, size, crop
        self.classes = len(dataset.classes) if classes is None else classes

    def __len__(self) -> int:
        return len(self.dataset)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K]."""
        draws = uniforms(seed, 1 + 4 * _ATTEMPTS).tolist()
        images, labels = [], []
        for i, numbers in zip(index.tolist(), draws, strict=True):
            image, label = self.item(i)
            image = self.cropped(_as_pil(image), numbers)
            images.append(torch.from_numpy(np.array(image)).permute(2, 0, 1))
            labels.append(label if isinstance(label, list) else int(label))
        return torch.stack(images), torch.tensor(labels)

    def labels_of(self, index: Tensor) -> Tensor:
        """Labels from the data set's `targets`, as in torchvision; otherwise images are read."""
        targets = getattr(self.dataset, "targets", None)
        if targets is None:
            return super().labels_of(index)
        return torch.as_tensor([int(targets[i]) for i in index.tolist()])

    def item(self, index: int) -> tuple[Any, Any]:
        """An image and its label. Raises HoldfastError if the image cannot be read."""
        try:
            return self.dataset[index]
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise _unreadable(f"image {index} of the data set", error) from error

    def cropped(self, image: Image.Image, numbers: list[float]) -> Image.Image:
        """The part of an image that is shown; `numbers` in [0,1) choose a random one.

        Raises HoldfastError if the image has another size and nothing says how to crop it.
        """
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


def _unreadable(image: str, error: Exception) -> HoldfastError:
    return HoldfastError(f"{image} cannot be read as an image ({error}): replace or remove it.")


def _as_pil(image: Image.Image | Tensor | np.ndarray) -> Image.Image:
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

    labels: labels of the class folders, instead of their positions; -1 if unknown, a list if several
        are correct, all of one length, padded with -1. Other folders are left out.
        "unknown": all images under root, in folders or not, without labels.
    """

    border = 0  # pixels around each image that are cut off

    def __init__(
        self,
        root: str | Path,
        size: int = 224,
        crop: Crop = "random",
        labels: Mapping[str, int | list[int]] | Literal["unknown"] | None = None,
    ) -> None:
        self.root = Path(root)
        if isinstance(labels, str) and labels != "unknown":
            raise HoldfastError(
                f"Unknown labels={labels!r}. Pass a label for each class folder, or 'unknown'."
            )
        numbered = {name: number for number, name in enumerate(class_folders(self.root))}
        of_folder = {"": -1} if isinstance(labels, str) else dict(labels or numbered)
        files = [
            (path, of_folder[name])
            for name in sorted(of_folder)
            for path in _images_in(self.root / name)
        ]
        if not files:
            raise HoldfastError(
                f"no images in {root}: expected files like {root}/CLASS/NAME.jpg"
                + ("." if isinstance(labels, str) else ", or labels='unknown'.")
            )
        self.labels = torch.tensor([label for _, label in files])
        classes = int(torch.tensor(list(of_folder.values())).max()) + 1
        super().__init__([path for path, _ in files], size, crop, classes)

    def item(self, index: int) -> tuple[Image.Image, Any]:
        path, label = self.dataset[index], self.labels[index]
        try:
            with Image.open(path, formats=_FORMATS) as image:
                return ImageOps.crop(_as_pil(image), self.border), label.tolist()
        except Exception as error:  # Pillow raises many types of errors for damaged files
            raise _unreadable(path, error) from error

    def labels_of(self, index: Tensor) -> Tensor:
        return self.labels[index]

    @property
    def content(self) -> str:  # type: ignore[override]
        """How images are cropped, and a hash of their names; no path."""
        names = "\n".join("/".join(self.name(number)) for number in range(len(self)))
        digest = hashlib.sha256(names.encode()).hexdigest()[:12]
        return f"{self.crop or 'no'} crops, names {digest}"

    def name(self, index: int) -> tuple[str, str]:
        path = Path(self.dataset[index])
        return [*path.relative_to(self.root).parent.parts, ""][0], path.name


class ImageNet(ImageFolder):
    """Images under root/SYNSET/, of some or all of the 1,000 classes, with ImageNet's labels.

    The validation set of https://image-net.org is one folder: sort it into folders named by synset.
    """

    def __init__(self, root: str | Path, size: int = 224, crop: Crop = "center") -> None:
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


def class_folders(root: Path) -> list[str]:
    """Names of the folders in `root`, sorted; none if it is no folder."""
    return sorted(f.name for f in root.iterdir() if f.is_dir()) if root.is_dir() else []


def _images_in(folder: Path) -> list[str]:
    """The paths of all image files in a folder and its sub-folders, sorted.

    Raises HoldfastError if one of the folders cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise HoldfastError(
            f"{folder} cannot be read ({reason(error)}). Fix the folder or the path."
        )

    below = os.walk(folder, onerror=refuse, followlinks=True)
    paths = (os.path.join(parent, name) for parent, _, names in below for name in names)
    return sorted(filter(is_image_file, paths))
