"""One of each of your own, without touching Holdfast: `holdfast suite own.yaml` runs them.

A class path is the name of a file in the current folder (or of an installed module) and of what is in it:
`own.Margin`. It stands wherever a short name may stand, in a suite and on the command
line.
"""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from holdfast.callbacks import AccuracyEstimator, Adapting, Reset
from holdfast.datamodules import Digits, ImageSource, Stream
from holdfast.datamodules.corruptions import register
from holdfast.datamodules.corruptions.random import Rng
from holdfast.methods import TTAMethod


def margin(logits: Tensor) -> Tensor:
    """How much more probable the first class is than the second, [B] in [0,1]."""
    first, second = logits.softmax(1).topk(2).values.unbind(1)
    return first - second


class Margin(TTAMethod):
    """A method: widens the margin of its predictions."""

    def __init__(self, backbone: str | torch.nn.Module, temperature: float = 1, **kwargs: Any):
        super().__init__(backbone, **kwargs)
        self.temperature = temperature

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return -margin(logits / self.temperature).mean()


class MarginScore(AccuracyEstimator):
    """An estimator: takes the mean margin for the accuracy."""

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return margin(method.predict(images)).mean()


class DoublingReset(Reset):
    """A reset: after `first` steps, then after twice as many, and so on."""

    def __init__(self, first: int = 100) -> None:
        self.first = first

    def should_reset(self, method: Adapting) -> bool:
        return method.steps_since_reset >= self.first * 2**method.reset_count


@register(cifar=((0,), (0.1,), (0.2,), (0.3,), (0.4,), (0.5,)))
def drizzle(images: Tensor, rng: Rng, share: float) -> Tensor:
    """A corruption, with the share of grey pixels at severities 0 to 5 in the table "cifar"."""
    grey = rng.uniform(0, 1, 1, *images.shape[2:]) < share
    return images.masked_fill(grey, 0.5)


class Tide(Stream):
    """A stream: a corruption that comes and goes, `each` images at every severity."""

    def __init__(self, source: ImageSource, corruption: str, each: int = 1000, **kwargs: Any):
        self.corruption, self.each = corruption, each
        super().__init__(source, **kwargs)

    @property
    def identity(self) -> dict[str, Any]:
        return super().identity | {"corruption": self.corruption, "each": self.each}

    def segments(self) -> Iterator[tuple[tuple[tuple[str, float], ...], int]]:
        for severity in cycle((0, 1, 2, 3, 4, 5, 4, 3, 2, 1)):
            yield ((self.corruption, severity),), self.each


class ShiftedDigits(ImageSource):
    """A source of images: digits moved sideways, each by its seed."""

    classes, size = 10, 32

    def __init__(self, pixels: int = 2) -> None:
        self.pixels, self.digits = pixels, Digits()

    def __len__(self) -> int:
        return len(self.digits)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = self.digits.load(index, seed)
        shifts = (seed % (2 * self.pixels + 1) - self.pixels).tolist()
        moved = [image.roll(shift, -1) for image, shift in zip(images, shifts, strict=True)]
        return torch.stack(moved), labels
