"""Tiny ImageNet: 200 natural classes of 64 x 64 pixels."""

import hashlib
from pathlib import Path
from typing import Literal

import torch

from ... import HoldfastError, one_of
from .dataset import Crop
from .folder import ImageFolder

_CLASSES = 200
_CALIBRATION = 10  # validation images of each class that are kept from streams


class TinyImageNet(ImageFolder):
    """Tiny ImageNet's images (Stanford CS231n): 200 synsets in sorted order, 64 x 64 pixels.

    The validation images are divided once: for each class, the ten whose file names have the smallest
    SHA-256 are "calibration" (2,000 images), which no stream sees, and the other 40 are "stream" (8,000).

    Args:
        root: the official folder, or one with train/SYNSET/ and val/SYNSET/, or with the validation
            images alone as SYNSET/val_N.JPEG.
        split: "train", "calibration" or "stream".
        crop: see `DatasetSource`; by default images are whole.

    Raises HoldfastError if `root` does not have the images of all 200 classes.
    """

    size = 64

    def __init__(
        self,
        root: str | Path,
        split: Literal["train", "calibration", "stream"] = "stream",
        crop: Crop = None,
    ) -> None:
        one_of("train", "calibration", "stream", split=split)
        part = "train" if split == "train" else "val"
        folder = Path(root, part) if Path(root, part).is_dir() or part == "train" else Path(root)
        annotations = folder / "val_annotations.txt"
        if annotations.is_file():
            raise HoldfastError(
                f"{folder} has its images in one folder. Move each into a folder named by its synset, "
                f"as {annotations} says, such as {folder / 'n01443537' / 'val_0.JPEG'}."
            )
        super().__init__(folder, self.size, crop)
        if self.classes != _CLASSES:
            raise HoldfastError(
                f"{folder} has {self.classes} class folders instead of Tiny ImageNet's {_CLASSES}. Pass "
                "the folder that contains train/ and val/ with one folder per synset."
            )
        self.split = split
        if split == "train":
            return
        digests = [hashlib.sha256(Path(p).name.encode()).hexdigest() for p in self.dataset]
        rows = []
        for number in range(_CLASSES):
            of_class = torch.nonzero(self.labels == number).flatten().tolist()
            first = sorted(of_class, key=lambda row: digests[row])[:_CALIBRATION]
            rows += first if split == "calibration" else [r for r in of_class if r not in first]
        self.dataset = [self.dataset[row] for row in sorted(rows)]
        self.labels = self.labels[sorted(rows)]
