"""Streams in which corruptions come back, mix, or change at random moments."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor

from .. import in_range
from .counter import mix, permuted
from .label_shift import correlated_order
from .stream import Corruptions, Stream
from .wrapper import MIXED, StreamWrapper, length_of


class Recurring(StreamWrapper):
    """Another stream shown `visits` times (PeTTA's and ReservoirTTA's recurring protocol has 20).

    From the second visit on, each segment shows its images in a different order.

    Args:
        stream: the other stream; it must end.
        visits: how often it is shown; None: endlessly.
        **kwargs: see `StreamWrapper`.
    """

    facts = ("seed", "visits")

    def __init__(self, stream: Stream, visits: int | None = 20, **kwargs: Any) -> None:
        in_range(1, visits=visits)
        self.length = length_of(stream, type(self).__name__)
        super().__init__(stream, None if visits is None else visits * self.length, **kwargs)
        self.visits = visits
        self.segments_a_visit = stream.segment_at(self.length - 1) + 1

    @classmethod
    def order_of(cls, facts: Mapping[str, Any], inner: str) -> str:
        return f"{inner}, {facts['visits'] or 'endless'} visits"

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        once = [
            (self.stream.segment(number).corruptions, len(self.stream.positions_of(number)))
            for number in range(self.segments_a_visit)
        ]
        return chain.from_iterable(repeat(once))

    def within(self, number: int, offset: Tensor) -> Tensor:
        visit, inner = divmod(number, self.segments_a_visit)
        if visit:
            offset = permuted(offset, self.segment(number).count, self.seed, inner, visit)
        return self.stream.segment(inner).start + offset


class MixedDomains(StreamWrapper):
    """Another stream's samples in random order, so that each image has a corruption of its own.

    With `delta` each corruption comes in runs of random length: the dynamic protocol (CDC), between
    one corruption after another (delta=0) and full mixing.

    Args:
        stream: the other stream; it must end.
        delta: concentration of each corruption's Dirichlet distribution over time slots; None mixes fully.
        **kwargs: see `StreamWrapper`.
    """

    facts = ("seed", "delta")

    def __init__(self, stream: Stream, delta: float | None = None, **kwargs: Any) -> None:
        in_range(0, delta=delta)
        self.length = length_of(stream, type(self).__name__)
        super().__init__(stream, self.length, **kwargs)
        self.delta = delta

    @classmethod
    def order_of(cls, facts: Mapping[str, Any], inner: str) -> str:
        delta = facts["delta"]
        return f"{inner}, corruptions mixed" + ("" if delta is None else f" (delta {delta:g})")

    def positions(self, index: Tensor) -> Tensor:
        if self.delta is None:
            return permuted(index, self.length, self.seed)
        return self._dynamic_order[index]

    @cached_property
    def _dynamic_order(self) -> Tensor:
        """Positions [N] in the other stream, in the order in which they are shown."""
        assert self.delta is not None
        seed = int(mix(self.seed, 0)) % 2**32
        return torch.from_numpy(correlated_order(self._domains.numpy(), self.delta, seed))

    @cached_property
    def _domains(self) -> Tensor:
        """The first segment [N] of the other stream that has the corruptions of each of its positions."""
        numbers = self.stream.segments_at(torch.arange(self.length))
        first: dict[Corruptions, int] = {}
        same = [
            first.setdefault(self.stream.segment(number).corruptions, number)
            for number in range(int(numbers.max()) + 1)
        ]
        return torch.tensor(same)[numbers]

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        if self.delta is None:
            yield MIXED, self.length
            return
        shown = self._domains[self._dynamic_order]
        for number, count in zip(*torch.unique_consecutive(shown, return_counts=True), strict=True):
            yield self.stream.segment(int(number)).corruptions, int(count)
