"""A stream in which some classes are more frequent than others."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch import Tensor

from .. import HoldfastError, in_range
from .counter import mix
from .stream import Corruptions, Stream
from .wrapper import StreamWrapper


class ClassImbalance(StreamWrapper):
    """Another stream with a long-tailed class distribution: images of rarer classes are left out.

    In every segment the class of rank r = 0 ... C-1 keeps the share ratio^(-r / (C-1)) of its images, at
    least one. The ranks are drawn once from the seed.

    Args:
        stream: the other stream; its source must know the labels.
        ratio: frequency of the most common class over that of the rarest, at least 1.
        **kwargs: see `StreamWrapper`.
    """

    segment, segment_at = Stream.segment, Stream.segment_at

    def __init__(self, stream: Stream, ratio: float = 10.0, **kwargs: Any) -> None:
        in_range(1, ratio=ratio)
        super().__init__(stream, None, **kwargs)
        self.ratio = ratio
        self._chosen: dict[int, Tensor] = {}
        if stream.images is not None:
            self.images = sum(count for _, count in self.segments())

    @property
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments, "ratio": self.ratio}

    def chosen(self, number: int) -> Tensor:
        """Positions [N] in the other stream of the remaining images of a segment.

        Raises HoldfastError if a label is unknown.
        """
        if number not in self._chosen:
            segment, images = self.stream.segment(number), self.stream.images
            end = segment.end if images is None else min(segment.end, images)
            positions = torch.arange(segment.start, end)
            labels = self.stream.labels(positions).view(len(positions), -1)[:, 0]
            if (labels < 0).any():
                raise HoldfastError(
                    f"{self.source!r} has images without labels, so their classes are not known. Pass a "
                    "labelled source, or leave ClassImbalance out."
                )
            self._chosen[number] = positions[self.left(labels)]
        return self._chosen[number]

    def left(self, labels: Tensor) -> Tensor:
        """Which images of a segment remain: int64 [N] labels -> bool [N]; the first ones of each class."""
        classes = max(int(getattr(self.source, "classes", 0)), int(labels.max()) + 1)
        ranks = mix(self.seed, 1, torch.arange(classes)).argsort().argsort()
        share = self.ratio ** (-ranks / max(classes - 1, 1))
        number = labels.bincount(minlength=classes)
        order = labels.argsort(stable=True)
        place = torch.empty_like(labels)  # of each image among those of its class
        place[order] = torch.arange(len(labels)) - (number.cumsum(0) - number)[labels[order]]
        return place < (number * share).round().clamp(min=1)[labels]

    def positions(self, index: Tensor) -> Tensor:
        numbers = self.segments_at(index)
        result = torch.empty_like(index)
        for number in numbers.unique().tolist():
            rows = numbers == number
            result[rows] = self.chosen(number)[index[rows] - self.segment(number).start]
        return result

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        for number in count():
            try:
                segment = self.stream.segment(number)
            except IndexError:
                return
            if self.stream.images is not None and segment.start >= self.stream.images:
                return
            yield segment.corruptions, len(self.chosen(number))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_chosen": {}}
