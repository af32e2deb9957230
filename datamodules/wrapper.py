"""A stream on top of a stream: the same samples in another order, or with other corruptions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .. import HoldfastError
from ..batch import Batch
from .sources import ImageSource
from .stream import INDEPENDENT, Corruptions, OnDevice, Segment, Stream, groups, put_together

MIXED: Corruptions = (("mixed", 0.0),)  # of a segment whose images have different corruptions
_MOST_ORDERS = 32  # in memory; a batch of mixed domains needs one of each segment


class StreamWrapper(Stream):
    """Shows another stream's samples in another order; subclasses override one of three methods.

    Sample i is the other stream's sample at `positions(i)`, pixel for pixel. Override `positions`,
    or `within`, its part in one segment, or `find_order`, a whole segment at once: pure functions of
    the position, so that resuming, workers and ranks need nothing else. A wrapper with its own
    segments also overrides `segments`; one that leaves the other stream's in place is a
    `ReorderingWrapper`. Reports quote `order`, by default the name of the class.

    Args:
        stream: the other stream.
        images: length; None for an endless one.
        seed: seed of the new order; default: the other stream's.
        batch_size: as in `Stream`, like the next two; default: the other stream's.
        num_workers: processes that make batches.
        on_device: corrupt on the Trainer's device.
        start: the position to begin at.
    """

    facts: tuple[str, ...] = ("seed",)  # the attributes that determine the order
    measured: tuple[str, ...] = ()  # those of them that follow from the others

    def __init__(
        self,
        stream: Stream,
        images: int | None,
        seed: int | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        on_device: OnDevice = None,
        start: int = 0,
    ) -> None:
        options: dict[str, Any] = {"seed": seed, "batch_size": batch_size, "table": None}
        options |= {"num_workers": num_workers, "on_device": on_device, "quality": None}
        for name, value in options.items():
            options[name] = getattr(stream, name) if value is None else value
        super().__init__(stream.source, images=images, start=start, **options)
        self.stream, self.precorrupted = stream, stream.precorrupted
        self._orders: dict[int, Tensor] = {}

    @property
    def identity(self) -> dict[str, Any]:
        inner = self.stream.identity
        entry = {"wrapper": type(self).__name__, **self._facts(), "order": self.order}
        return {**inner, "images": self.images, "wrappers": [*inner.get("wrappers", []), entry]}

    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]:
        *inner, entry = facts["wrappers"]
        facts = self.stream.seedless({**facts, "wrappers": inner})
        entry = {name: value for name, value in entry.items() if name not in self.measured}
        return facts | {"wrappers": [*facts["wrappers"], entry]}

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.facts}

    @property
    def order(self) -> str:
        return self.order_of(self._facts(), self.stream.order)

    @classmethod
    def order_of(cls, facts: Mapping[str, Any], inner: str) -> str:
        """The order of labels and corruptions, from the `facts` and the other stream's order."""
        return other_labels(inner, cls.__name__)

    def positions(self, index: Tensor) -> Tensor:
        """Positions in the other stream of the samples at the positions `index` [B]."""
        return put_together(
            (rows, self.within(number, index[rows] - self.segment(number).start))
            for number, rows in groups(self.segments_at(index))
        )

    def within(self, number: int, offset: Tensor) -> Tensor:
        """Positions in the other stream of the samples `offset` [B] after the first of a segment."""
        return self.sample_order(number)[offset]

    def find_order(self, number: int) -> Tensor:
        """Positions [N] in the other stream of all samples of a segment, in their order."""
        return self.stream.positions_of(number)

    def corruption_positions(self, index: Tensor) -> Tensor:
        """Positions [B] in the other stream of the corruptions to apply; default: `positions(index)`."""
        return self.positions(index)

    def sources(self) -> Iterable[ImageSource]:
        return self.stream.sources()

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        return self.stream.segments()

    def sample_order(self, number: int) -> Tensor:
        """The positions [N] that `find_order` finds; the orders used last stay in memory."""
        if number not in self._orders:
            self._orders = dict(list(self._orders.items())[1 - _MOST_ORDERS :])
            self._orders[number] = self.find_order(number)
        return self._orders[number]

    def known_labels(self, positions: Tensor) -> Tensor:
        """The labels [N] at positions [N] of the other stream; of several correct ones, the first.

        Raises HoldfastError if a label is unknown.
        """
        labels = self.stream.labels(positions).view(len(positions), -1)[:, 0]
        if (labels < 0).any():
            name = type(self).__name__
            raise HoldfastError(
                f"{self.source!r} has images without labels, which {name} cannot order by class. "
                f"Pass a labelled source, or leave {name} out."
            )
        return labels

    def labels(self, index: Tensor) -> Tensor:
        return self.stream.labels(self.positions(index))

    def clean(self, index: Tensor) -> Batch:
        batch = self.stream.clean(self.positions(index))
        return batch._replace(index=index, segment=self.segments_at(index))

    def encoded(self, index: Tensor) -> Batch:
        batch = self.stream.encoded(self.positions(index))
        return batch._replace(index=index, segment=self.segments_at(index))

    def decoded(self, batch: Batch, device: torch.device) -> Batch:
        inner = self._inner(batch, self.positions(batch.index))
        return batch._replace(images=self.stream.decoded(inner, device).images)

    def corrupted(self, batch: Batch) -> Batch:
        inner = self._inner(batch, self.corruption_positions(batch.index))
        return batch._replace(images=self.stream.corrupted(inner).images)

    def _inner(self, batch: Batch, positions: Tensor) -> Batch:
        """The batch as one of the other stream, at its positions [B]."""
        return batch._replace(index=positions, segment=self.stream.segments_at(positions))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_orders": {}}


class ReorderingWrapper(StreamWrapper):
    """A wrapper that leaves the other stream's segments in place.

    If it reorders images across them, it also overrides `corruption_positions`.
    """

    def segment(self, number: int) -> Segment:
        return self.stream.segment(number)

    def segment_at(self, position: int) -> int:
        return self.stream.segment_at(position)


def other_labels(inner: str, change: str) -> str:
    """The order of a stream on top of one with the order `inner` whose labels it reorders.

    >>> other_labels("i.i.d. labels, corruptions mixed", "labels sorted")
    'corruptions mixed, labels sorted'
    """
    rest = inner.removeprefix(INDEPENDENT).removeprefix(", ")
    return f"{rest}, {change}" if rest else change


def length_of(stream: Stream, wrapper: str) -> int:
    """The length of a stream, which must be finite and start at its first image.

    Raises HoldfastError if it is not.
    """
    if stream.images is None or stream.start:
        raise HoldfastError(
            f"{wrapper} needs a stream that ends and begins at its first image. Pass images=NUMBER to "
            f"{type(stream).__name__}, and start= to {wrapper}."
        )
    return stream.images
