"""The stream of the estimation benchmarks: given corruptions, one after another."""

from collections.abc import Iterator, Sequence
from typing import Any

from .. import HoldfastError
from ..datamodules import ImageSource, Stream
from ..datamodules.corruptions import CORRUPTIONS
from ..datamodules.stream import Corruptions


class Corrupted(Stream):
    """`each` images under every corruption, at every severity, in the order given.

    One corruption by itself is AETTA's fully test-time protocol; all of them, its continual one.

    Args:
        corruptions: names; [] for one stretch of clean images.
        severities: 0 to 5, fractions too.
        each: images of each corruption and severity.
    """

    def __init__(
        self,
        source: ImageSource,
        corruptions: Sequence[str] = CORRUPTIONS,
        severities: Sequence[float] = (5,),
        each: int = 1280,
        seed: int = 43,
        table: str = "imagenet",
        quality: int | None = None,
        batch_size: int = 64,
        num_workers: int = 1,
    ) -> None:
        if each < 1 or not severities:
            raise HoldfastError(f"each={each}: give at least one image and one severity.")
        cells = [((name, float(level)),) for name in corruptions for level in severities]
        self.cells: list[Corruptions] = [*cells] or [()]
        self.each = each
        images = each * len(self.cells)
        super().__init__(source, images, seed, table, quality, batch_size, num_workers)

    @property
    def identity(self) -> dict[str, Any]:
        return super().identity | {"cells": self.cells, "each": self.each}

    def stretches(self) -> Iterator[tuple[Corruptions, int]]:
        return ((cell, self.each) for cell in self.cells)
