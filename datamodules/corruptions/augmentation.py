"""Random corruptions for training pipelines: the choice, and a callable in the manner of albumentations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ... import in_range
from ...imagenet import CORRUPTIONS
from . import check, corrupt
from .imagecorruptions import as_array, as_batch


class Choice:
    """A random choice of corruption, severity and seed by torch's global generator.

    Args:
        names: one corruption, or several from which one is drawn.
        severity: a number from 0 to 5, or two between which one is drawn.
        table: "imagenet", "cifar" or "tinyimagenet".

    Raises:
        HoldfastError: if a name, severity or table does not exist.
    """

    def __init__(
        self, names: str | Sequence[str], severity: float | Sequence[float], table: str
    ) -> None:
        self.names = [names] if isinstance(names, str) else list(names)
        low, high = severity if isinstance(severity, Sequence) else (severity, severity)
        in_range(1, names=len(self.names))
        in_range(low, severity=high)
        for name in self.names:
            for limit in (low, high):
                check(name, limit, table)
        self.low, self.high, self.table = low, high, table

    def draw(self) -> tuple[str, float, int]:
        """Corruption, severity and seed of the next image."""
        name = self.names[int(torch.randint(len(self.names), ()))]
        severity = self.low + (self.high - self.low) * torch.rand(()).item()
        return name, severity, int(torch.randint(2**62, ()))


class CorruptArray:
    """Corrupt `image` and return it, with all other arguments unchanged, in a dict.

    Masks, boxes and key points pass unchanged: only `elastic_transform` moves pixels.

    Args:
        names: one corruption, or several from which one is drawn (default: the 15 of ImageNet-C).
        severity: a number from 0 to 5, or two between which one is drawn.
        table: parameters of "imagenet", "cifar" or "tinyimagenet".
        p: probability that an image is corrupted.

    Raises:
        HoldfastError: if a name, severity, table, probability or image is invalid.
    """

    def __init__(
        self,
        names: str | Sequence[str] = CORRUPTIONS,
        severity: float | Sequence[float] = (1, 5),
        table: str = "imagenet",
        p: float = 1.0,
    ) -> None:
        in_range(0, 1, p=p)
        self.choice, self.p = Choice(names, severity, table), p

    def __call__(self, *, image: np.ndarray, **targets: Any) -> dict[str, Any]:
        """The image, uint8 [H,W,3], [H,W,1] or [H,W], corrupted as [H,W,3], and the targets."""
        batch = as_batch(image)
        if torch.rand(()).item() < self.p:
            batch = corrupt(batch, *self.choice.draw(), self.choice.table)
        return {"image": as_array(batch), **targets}
