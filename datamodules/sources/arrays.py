"""Small data sets that are arrays: scikit-learn's digits, CIFAR, and the published corrupted CIFAR."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ... import HoldfastError
from ..counter import scramble
from . import ImageSource, check_split
from .folder import ImageFolder

_SEVERITIES = 5  # in each file of the corrupted sets, one after the other
ORIGIN = {10: "https://zenodo.org/records/2535967", 100: "https://zenodo.org/records/3555552"}


class _ArraySource(ImageSource):
    """Images uint8 [N,3,S,S] and labels int64 [N] in memory; seeds change nothing."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,S,S], labels int64 [B]."""
        return self.images[index], self.labels[index]

    def labels_of(self, index: Tensor) -> Tensor:
        return self.labels[index]


class Digits(_ArraySource):
    """scikit-learn's 1,797 scanned handwritten digits, scaled from 8x8 to 32x32 RGB.

    The splits are disjoint: 1,000 images for training, 300 for calibration, 497 for the stream.
    """

    classes = 10
    size = 32

    def __init__(self, split: str = "stream") -> None:
        from sklearn.datasets import load_digits

        self.split = split
        number = check_split(split)
        data = load_digits()
        order = scramble(torch.arange(len(data.target))).argsort()
        members = order.split([1000, 300, len(order) - 1300])[number]
        scans = torch.from_numpy(data.images)[members, None] / 16
        scans = F.interpolate(scans, size=self.size, mode="bicubic").clamp(0, 1)
        self.images = (scans * 255).round().to(torch.uint8).repeat(1, 3, 1, 1)
        self.labels = torch.from_numpy(data.target)[members].long()


class CIFAR(_ArraySource):
    """The images of CIFAR-10 or CIFAR-100; nothing is downloaded.

    root: torchvision's folder, or one with the class folders test/CLASS/ and train/CLASS/.
    """

    size = 32

    def __init__(
        self, root: str, classes: Literal[10, 100] = 10, split: Literal["test", "train"] = "test"
    ) -> None:
        from torchvision import datasets

        self.classes = classes
        self.files: ImageFolder | None = None
        if (folder := Path(root, split)).is_dir():
            self.files = ImageFolder(folder, self.size, crop=None)
            self.labels = self.files.labels
            if self.files.classes != classes:
                raise HoldfastError(
                    f"{folder} has {self.files.classes} class folders, not {classes}. Pass the folder "
                    f"of CIFAR-{classes}."
                )
            return
        kind = datasets.CIFAR10 if classes == 10 else datasets.CIFAR100
        try:
            data = kind(root, train=split == "train")
        except RuntimeError as error:  # nothing there, or other bytes than the published ones
            raise HoldfastError(
                f"{root} does not contain CIFAR-{classes}. Expected {root}/{kind.base_folder}/ (from "
                "https://www.cs.toronto.edu/~kriz/cifar.html, the Python version), or images in "
                f"{root}/{split}/CLASS/."
            ) from error
        self.images = torch.from_numpy(data.data).permute(0, 3, 1, 2)
        self.labels = torch.tensor(data.targets)

    @property
    def content(self) -> str:  # type: ignore[override]
        """A hash of the pixels, or of the names of files."""
        if self.files is not None:
            return self.files.content
        return f"pixels {hashlib.sha256(self.images.numpy().tobytes()).hexdigest()[:12]}"

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        return super().load(index, seed) if self.files is None else self.files.load(index, seed)


class CorruptedArray(_ArraySource):
    """One severity of one corruption: a fifth of FOLDER/CORRUPTION.npy, with FOLDER/labels.npy."""

    def __init__(self, folder: Path, corruption: str, severity: int, classes: int) -> None:
        self.path, self.classes = folder / f"{corruption}.npy", classes
        try:
            shape, labels = self.array.shape, np.load(folder / "labels.npy", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise HoldfastError(
                f"{folder} does not contain CIFAR-{classes}-C. Expected {self.path.name} and "
                f"labels.npy there (from {ORIGIN[classes]})."
            ) from error
        count = len(labels) // _SEVERITIES
        if len(shape) != 4 or shape[::3] != (len(labels), 3) or self.array.dtype != np.uint8:
            raise HoldfastError(
                f"{self.path} has shape {shape}, not uint8 [{len(labels)},32,32,3]."
            )
        if labels.dtype.kind not in "iu":
            raise HoldfastError(f"The labels in {folder} are {labels.dtype}, not class numbers.")
        if labels.max() >= classes:
            raise HoldfastError(
                f"The labels in {folder} go up to {labels.max()}, so it does not contain {classes}."
            )
        self.first, self.size = (severity - 1) * count, shape[1]
        self.labels = torch.from_numpy(labels[self.first : self.first + count].astype(np.int64))

    def __repr__(self) -> str:
        return f"CorruptedArray({self.path.stem}, from image {self.first})"

    @cached_property
    def array(self) -> np.ndarray:
        """The file, mapped into memory: only what is asked for is read."""
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        images = np.asarray(self.array[self.first + index.numpy()])
        return torch.from_numpy(images).permute(0, 3, 1, 2), self.labels[index]

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "array"}
