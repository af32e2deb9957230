"""Data sets one after another, images under one corruption after another, or one clean set."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle
from typing import Any, NamedTuple

from .. import HoldfastError, in_range
from .corruptions import CORRUPTIONS, check
from .sources.base import ImageSource
from .stream import Corruptions, Segment, Stream


class Part(NamedTuple):
    """A data set in a concatenation."""

    corruptions: Corruptions  # what its images show, or are to show
    source: ImageSource
    images: int  # of them, another choice each time


class Concatenation(Stream):
    """Parts one after another, in each of them every image once, in an order of its own.

    Args:
        finished: the sources' images are corrupted already.
        epochs: times through all parts, may be a fraction; None for ever.
        drop_last: leave out what does not fill a batch, in each part.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        finished: bool,
        epochs: float | None = 1,
        seed: int = 43,
        table: str = "imagenet",
        quality: int | None = None,
        batch_size: int = 64,
        num_workers: int = 1,
        on_device: bool = False,
        start: int = 0,
        drop_last: bool = False,
    ) -> None:
        if not finished:
            for corruption, severity in {pair for part in parts for pair in part.corruptions}:
                check(corruption, severity, table)
        if drop_last:
            parts = [p._replace(images=p.images - p.images % max(batch_size, 1)) for p in parts]
            if not all(part.images for part in parts):
                raise HoldfastError(f"drop_last leaves nothing: no batch of {batch_size} is full.")
        images = None if epochs is None else round(epochs * sum(part.images for part in parts))
        quality = None if finished else quality
        super().__init__(
            *(parts[0].source, images, seed, table, quality),
            *(batch_size, num_workers, on_device, start),
        )
        self.parts, self.finished = tuple(parts), finished
        self._starts = list(accumulate((part.images for part in parts), initial=0))

    @property
    def identity(self) -> dict[str, Any]:
        facts = [(part.corruptions, repr(part.source), part.images) for part in self.parts]
        return super().identity | {"parts": facts, "finished": self.finished}

    def stretches(self) -> Iterator[tuple[Corruptions, int]]:
        return ((part.corruptions, part.images) for part in cycle(self.parts))

    def segment(self, number: int) -> Segment:
        epoch, k = divmod(number, len(self.parts))
        start = epoch * self._starts[-1] + self._starts[k]
        return Segment(self.parts[k].corruptions, start, self.parts[k].images)

    def segment_at(self, position: int) -> int:
        epoch, place = divmod(position, self._starts[-1])
        return epoch * len(self.parts) + bisect_right(self._starts, place) - 1

    def source_of(self, number: int) -> ImageSource:
        return self.parts[number % len(self.parts)].source

    def applied(self, number: int) -> Corruptions:
        return () if self.finished else super().applied(number)


class Clean(Concatenation):
    """The images of a source as they are, each once: for source accuracy and temperature scaling."""

    def __init__(
        self,
        source: ImageSource,
        epochs: float | None = 1,
        images: int | None = None,
        seed: int = 43,
        batch_size: int = 64,
        num_workers: int = 1,
        start: int = 0,
    ) -> None:
        parts = [Part((), source, images or len(source))]
        super().__init__(
            *(parts, True, epochs, seed, "imagenet", None, batch_size, num_workers), start=start
        )


class Corrupted(Concatenation):
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
        in_range(1, each=each, severities=len(severities))
        cells: list[Corruptions] = [((c, float(s)),) for c in corruptions for s in severities]
        parts = [Part(cell, source, each) for cell in cells or [()]]
        super().__init__(parts, False, 1, seed, table, quality, batch_size, num_workers)
