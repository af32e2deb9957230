"""CIFAR-10 and CIFAR-100: the clean test sets, and the published corrupted ones."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .. import HoldfastError
from .concatenation import Concatenation, Part
from .corruptions import CORRUPTIONS
from .sources.base import ImageSource

SEVERITIES = 5
ORIGIN = {10: "https://zenodo.org/records/2535967", 100: "https://zenodo.org/records/3555552"}


class CIFAR(ImageSource):
    """The images of CIFAR-10 or CIFAR-100, from torchvision's folder; nothing is downloaded."""

    size = 32

    def __init__(
        self,
        root: str,
        classes: Literal[10, 100] = 10,
        split: Literal["test", "train"] = "test",
    ) -> None:
        from torchvision import datasets

        self.classes = classes
        kind = datasets.CIFAR10 if classes == 10 else datasets.CIFAR100
        try:
            data = kind(root, train=split == "train")
        except RuntimeError as error:  # nothing there, or other bytes than the published ones
            name = "cifar-10-batches-py" if classes == 10 else "cifar-100-python"
            raise HoldfastError(
                f"no CIFAR-{classes} in {root}: expected {root}/{name}/ "
                "(from https://www.cs.toronto.edu/~kriz/cifar.html, the Python version)."
            ) from error
        self.images, self.labels = data.data, torch.tensor(data.targets)

    def __len__(self) -> int:
        return len(self.labels)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,32,32], labels int64 [B]; no seed."""
        return torch.from_numpy(self.images[index.numpy()]).permute(0, 3, 1, 2), self.labels[index]


class CorruptedArray(ImageSource):
    """One severity of one corruption: a fifth of FOLDER/CORRUPTION.npy, with FOLDER/labels.npy."""

    def __init__(self, folder: Path, corruption: str, severity: int, classes: int) -> None:
        self.path, self.classes = folder / f"{corruption}.npy", classes
        try:
            shape, labels = self.array.shape, np.load(folder / "labels.npy", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise HoldfastError(
                f"{folder} is not CIFAR-{classes}-C: expected {self.path.name} and labels.npy there "
                f"(from {ORIGIN[classes]})."
            ) from error
        count = len(labels) // SEVERITIES
        if len(shape) != 4 or shape[::3] != (len(labels), 3) or self.array.dtype != np.uint8:
            raise HoldfastError(
                f"{self.path} has shape {shape}, not uint8 [{len(labels)},32,32,3]."
            )
        if labels.max() >= classes:
            raise HoldfastError(
                f"{folder} has labels up to {labels.max()}: it is not of {classes}."
            )
        self.first, self.size = (severity - 1) * count, shape[1]
        self.labels = torch.from_numpy(labels[self.first : self.first + count].astype(np.int64))

    def __repr__(self) -> str:
        return f"CorruptedArray({self.path.stem}, from image {self.first})"

    @cached_property
    def array(self) -> np.ndarray:
        """The file, mapped into memory: only what is asked for is read."""
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self.labels)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,32,32], labels int64 [B]; no seed."""
        images = np.asarray(self.array[self.first + index.numpy()])
        return torch.from_numpy(images).permute(0, 3, 1, 2), self.labels[index]

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "array"}


class CIFARC(Concatenation):
    """CIFAR-10-C or CIFAR-100-C (Hendrycks & Dietterich 2019), corruption after corruption.

    One corruption by itself is the fully test-time setting; all of them, the continual one;
    severities=[1,2,3,4,5,4,3,2,1], the gradual one (Wang et al. 2022); epochs=None, the endless one.

    Args:
        folder: with CORRUPTION.npy and labels.npy.
        classes: 10 or 100.
        corruptions: in this order.
        severities: of each corruption, in this order.
        epochs: times through all of them, may be a fraction; None for ever.
        drop_last: leave out what does not fill a batch, of each corruption and severity, as AETTA does.
    """

    def __init__(
        self,
        folder: str,
        classes: Literal[10, 100] = 10,
        corruptions: Sequence[str] = CORRUPTIONS,
        severities: Sequence[int] = (5,),
        epochs: float | None = 1,
        seed: int = 43,
        batch_size: int = 64,
        num_workers: int = 1,
        start: int = 0,
        drop_last: bool = False,
    ) -> None:
        if classes not in ORIGIN:
            raise HoldfastError(f"classes={classes}: there are CIFAR-10 and CIFAR-100 only.")
        if not corruptions or not severities or not set(severities) <= {1, 2, 3, 4, 5}:
            raise HoldfastError(
                f"corruptions={list(corruptions)}, severities={list(severities)}: give at least one "
                "of both, severities from 1 to 5."
            )
        pairs = [(name, severity) for name in corruptions for severity in severities]
        sources = {
            (name, level): CorruptedArray(Path(folder), name, level, classes)
            for name, level in sorted(set(pairs))
        }
        parts = [Part((pair,), sources[pair], len(sources[pair])) for pair in pairs]
        super().__init__(
            *(parts, True, epochs, seed, "cifar", None, batch_size, num_workers),
            start=start,
            drop_last=drop_last,
        )
