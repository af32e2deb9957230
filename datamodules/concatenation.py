"""Data sets one after another, images under one corruption after another, or one clean set."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, cycle
from typing import Any, NamedTuple

from torch import Tensor

from .. import HoldfastError, in_range
from .corruptions import CORRUPTIONS, check
from .sources import ImageSource
from .stream import INDEPENDENT, Corruptions, Segment, Stream


class Part(NamedTuple):
    """One of the data sets in a concatenation."""

    corruptions: Corruptions  # the corruptions of its images, or those to apply
    source: ImageSource
    num_images: int  # number of its images, chosen anew in each epoch


class Concatenation(Stream):
    """Parts one after another; each shows every image once, in a random order.

    Args:
        precorrupted: the sources' images are corrupted already.
        epochs: number of passes through all parts, may be a fraction; None: endless.
        drop_last: leave out the incomplete batch at the end of each part.
        **kwargs: see `Stream`.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        precorrupted: bool,
        epochs: float | None = 1,
        table: str = "imagenet",
        quality: int | None = None,
        batch_size: int = 64,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        if not precorrupted:
            for corruption, severity in {pair for part in parts for pair in part.corruptions}:
                check(corruption, severity, table)
        if drop_last:
            size = max(batch_size, 1)
            parts = [p._replace(num_images=p.num_images // size * size) for p in parts]
            if not all(part.num_images for part in parts):
                raise HoldfastError(
                    f"drop_last=True removes all batches, because none has {batch_size} images. "
                    "Reduce batch_size, or pass drop_last=False."
                )
        starts = list(accumulate((part.num_images for part in parts), initial=0))
        super().__init__(
            parts[0].source,
            images=None if epochs is None else round(epochs * starts[-1]),
            table=table,
            quality=None if precorrupted else quality,
            batch_size=batch_size,
            **kwargs,
        )
        self.parts, self.precorrupted, self._starts = tuple(parts), precorrupted, starts

    @property
    def identity(self) -> dict[str, Any]:
        facts = [(part.corruptions, repr(part.source), part.num_images) for part in self.parts]
        return super().identity | {"parts": facts, "precorrupted": self.precorrupted}

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        return ((part.corruptions, part.num_images) for part in cycle(self.parts))

    def segment(self, number: int) -> Segment:
        epoch, k = divmod(number, len(self.parts))
        start = epoch * self._starts[-1] + self._starts[k]
        return Segment(self.parts[k].corruptions, start, self.parts[k].num_images)

    def segment_at(self, position: int) -> int:
        epoch, rest = divmod(position, self._starts[-1])
        return epoch * len(self.parts) + bisect_right(self._starts, rest) - 1

    def sources(self) -> Iterable[ImageSource]:
        return {id(part.source): part.source for part in self.parts}.values()

    def source_of(self, number: int) -> ImageSource:
        return self.parts[number % len(self.parts)].source


class Clean(Concatenation):
    """The clean images of a source, each once: for source accuracy, temperature scaling and replay.

    Args:
        images: number in each epoch; default: all.
        shuffle: in a new order in each epoch; False: in the source's order, as a replay needs.
        **kwargs: see `Concatenation`.
    """

    def __init__(
        self,
        source: ImageSource,
        epochs: float | None = 1,
        images: int | None = None,
        shuffle: bool = True,
        **kwargs: Any,
    ) -> None:
        parts = [Part((), source, images or len(source))]
        super().__init__(
            parts, precorrupted=True, epochs=epochs, table="imagenet", quality=None, **kwargs
        )
        self.shuffle = shuffle

    @property
    def identity(self) -> dict[str, Any]:
        return super().identity | ({} if self.shuffle else {"shuffle": False})

    @property
    def order(self) -> str:
        return INDEPENDENT if self.shuffle else "images in the source's order"

    def source_index(self, index: Tensor, numbers: Tensor) -> Tensor:
        if self.shuffle:
            return super().source_index(index, numbers)
        return self.offset(index, numbers) % len(self.source_of(int(numbers[0])))


class Corrupted(Concatenation):
    """`each` images under every corruption at every severity, in the given order.

    A single corruption is AETTA's fully test-time protocol; all of them are its continual one.

    Args:
        corruptions: names; [] for one segment of clean images.
        severities: 0 to 5, fractions too.
        each: number of images for each corruption and severity.
        **kwargs: see `Concatenation`.
    """

    def __init__(
        self,
        source: ImageSource,
        corruptions: Sequence[str] = CORRUPTIONS,
        severities: Sequence[float] = (5,),
        each: int = 1280,
        **kwargs: Any,
    ) -> None:
        in_range(1, each=each, severities=len(severities))
        pairs: list[Corruptions] = [((c, float(s)),) for c in corruptions for s in severities]
        parts = [Part(pair, source, each) for pair in pairs or [()]]
        super().__init__(parts, precorrupted=False, **kwargs)
