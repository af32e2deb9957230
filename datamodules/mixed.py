"""A stream that mixes images of all corruptions."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .. import in_range
from .correlated import correlated_order
from .counter import mix, permuted
from .stream import Corruptions, Stream
from .wrapper import MIXED, StreamWrapper, length_of


class MixedDomains(StreamWrapper):
    """Another stream's samples in random order, so that each image has a corruption of its own.

    With `delta` each corruption comes in runs of random length: the dynamic protocol (CDC), between
    one corruption after another (delta=0) and full mixing.

    Args:
        stream: the other stream; it must end.
        delta: concentration of the Dirichlet distribution that divides each corruption among time slots;
            None mixes fully.
        **kwargs: see `StreamWrapper`.
    """

    segment, segment_at = Stream.segment, Stream.segment_at

    def __init__(self, stream: Stream, delta: float | None = None, **kwargs: Any) -> None:
        in_range(0, delta=delta)
        super().__init__(stream, length_of(stream, type(self).__name__), **kwargs)
        self.delta = delta

    @property
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments, "delta": self.delta}

    def positions(self, index: Tensor) -> Tensor:
        if self.delta is None:
            return permuted(index, int(self.images or 0), self.seed)
        return self.order[index]

    @cached_property
    def order(self) -> Tensor:
        """Positions [N] in the other stream, in the order in which they are shown."""
        assert self.delta is not None
        seed = int(mix(self.seed, 0)) % 2**32
        return torch.from_numpy(correlated_order(self.domains.numpy(), self.delta, seed))

    @cached_property
    def domains(self) -> Tensor:
        """The first segment [N] of the other stream that has the corruptions of each of its positions."""
        numbers = self.stream.segments_at(torch.arange(self.images or 0))
        first: dict[Corruptions, int] = {}
        same = [
            first.setdefault(self.stream.segment(number).corruptions, number)
            for number in range(int(numbers.max()) + 1)
        ]
        return torch.tensor(same)[numbers]

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        if self.delta is None:
            yield MIXED, int(self.images or 0)
            return
        shown = self.domains[self.order]
        for number, count in zip(*torch.unique_consecutive(shown, return_counts=True), strict=True):
            yield self.stream.segment(int(number)).corruptions, int(count)
