"""A stream that is shown several times."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from torch import Tensor

from .. import in_range
from .counter import permuted
from .stream import Corruptions, Segment, Stream
from .wrapper import StreamWrapper, length_of


class Recurring(StreamWrapper):
    """Another stream shown `visits` times (PeTTA's and ReservoirTTA's recurring protocol has 20).

    From the second visit on, each segment shows its images in a different order.

    Args:
        stream: the other stream; it must end.
        visits: how often it is shown; None: endlessly.
        **kwargs: see `StreamWrapper`.
    """

    def __init__(self, stream: Stream, visits: int | None = 20, **kwargs: Any) -> None:
        in_range(1, visits=visits)
        self.length = length_of(stream, type(self).__name__)
        super().__init__(stream, None if visits is None else visits * self.length, **kwargs)
        self.visits = visits
        self.segments_a_visit = stream.segment_at(self.length - 1) + 1

    @property
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments, "visits": self.visits}

    def visit(self, index: Tensor) -> Tensor:
        """The number of the visit, counted from 0, at each position [B]."""
        return index // self.length

    def positions(self, index: Tensor) -> Tensor:
        visits, positions = self.visit(index), index % self.length
        result = positions.clone()
        numbers = self.stream.segments_at(positions)
        for number in numbers.unique().tolist():
            segment = self.stream.segment(number)
            size = min(segment.end, self.length) - segment.start
            rows = (numbers == number) & (visits > 0)
            place = positions[rows] - segment.start
            result[rows] = segment.start + permuted(place, size, self.seed, number, visits[rows])
        return result

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        once = [self.stream.segment(number) for number in range(self.segments_a_visit)]
        pairs = [(own.corruptions, min(own.end, self.length) - own.start) for own in once]
        return chain.from_iterable(repeat(pairs))

    def segment(self, number: int) -> Segment:
        visit, inner = divmod(number, self.segments_a_visit)
        own = self.stream.segment(inner)
        start = visit * self.length
        return Segment(own.corruptions, start + own.start, min(own.end, self.length) - own.start)

    def segment_at(self, position: int) -> int:
        visit, place = divmod(position, self.length)
        return visit * self.segments_a_visit + self.stream.segment_at(place)
