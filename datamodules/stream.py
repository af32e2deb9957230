"""A stream of corrupted images in which any position can be reached at once."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from itertools import count as naturals
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .. import HoldfastError
from .batch import Batch
from .corruptions import corrupt, jpeg
from .counter import mix, permuted
from .sources import ImageSource

Corruptions = tuple[tuple[str, float], ...]


class Segment(NamedTuple):
    """A stretch of `count` images from position `start` on with the same corruptions."""

    corruptions: Corruptions  # (name, severity), applied in this order
    start: int
    count: int  # type: ignore[assignment]

    @property
    def end(self) -> int:
        return self.start + self.count

    def __str__(self) -> str:
        names = [f"{name}@{severity:g}" for name, severity in self.corruptions]
        return "+".join(names) or "clean"


class Stream(LightningDataModule, ABC):
    """Images of a source, corrupted segment by segment; subclasses override `stretches`.

    Sample i is a pure function of the constructor's arguments and i: source image, crop, corruptions
    and noise. Within a segment no source image repeats until all were drawn.

    Args:
        source: where the clean images come from.
        images: length of the stream; None for an endless one.
        seed: chooses images, crops and noise.
        table: parameter table of the corruptions, "imagenet" or "cifar".
        quality: JPEG quality of the finished image, None for no compression.
        batch_size: images in a batch; the last batch may be smaller.
        num_workers: processes that make batches; pixels do not depend on it.
    """

    def __init__(
        self,
        source: ImageSource,
        images: int | None = None,
        seed: int = 43,
        table: str = "imagenet",
        quality: int | None = None,
        batch_size: int = 64,
        num_workers: int = 1,
    ) -> None:
        super().__init__()
        if batch_size < 1 or (images is not None and images < 1):
            raise HoldfastError(
                f"batch_size={batch_size}, images={images}: both must be at least 1."
            )
        self.source, self.images, self.seed = source, images, seed
        self.table, self.quality = table, quality
        self.batch_size, self.num_workers = batch_size, num_workers
        self._segments: list[Segment] = []
        self._rest: Iterator[tuple[Corruptions, int]] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What the pixels depend on, for a run's provenance; subclasses add their own arguments."""
        facts = {"stream": type(self).__name__, "source": repr(self.source)}
        return facts | {
            name: getattr(self, name) for name in ("images", "seed", "table", "quality")
        }

    @abstractmethod
    def stretches(self) -> Iterator[tuple[Corruptions, int]]:
        """Corruptions and number of images of each segment in turn, for ever or to the end."""

    def segment(self, number: int) -> Segment:
        """The segment of that number; raises IndexError after the last one."""
        self._rest = self.stretches() if self._rest is None else self._rest
        while len(self._segments) <= number:
            corruptions, count = next(self._rest, (None, 0))
            if corruptions is None:
                raise IndexError(f"the stream has {len(self._segments)} segments")
            start = self._segments[-1].end if self._segments else 0
            self._segments.append(Segment(corruptions, start, count))
        return self._segments[number]

    def segment_at(self, position: int) -> int:
        """The number of the segment that holds a position."""
        while not self._segments or self._segments[-1].end <= position:
            self.segment(len(self._segments))
        return bisect_right(self._segments, position, key=lambda segment: segment.start) - 1

    def batch(self, index: Tensor) -> Batch:
        """The samples at positions `index` [B]."""
        numbers = torch.tensor([self.segment_at(i) for i in index.tolist()])
        seeds = mix(self.seed, index)
        images, labels = self.source.load(self._draw(index, numbers), mix(seeds, 0))
        for number in numbers.unique().tolist():
            here = numbers == number
            for slot, (name, severity) in enumerate(self.segment(number).corruptions, start=1):
                slot_seeds = mix(seeds[here], slot)
                images[here] = corrupt(images[here], name, severity, slot_seeds, table=self.table)
        if self.quality is not None:
            images = jpeg(images, self.quality)
        return Batch(images.float() / 255, labels, index, numbers)

    def _draw(self, index: Tensor, numbers: Tensor) -> Tensor:
        """Which source images the positions show: in every segment another order."""
        starts = torch.tensor([self.segment(number).start for number in numbers.tolist()])
        size = len(self.source)
        turn, place = (index - starts) // size, (index - starts) % size
        return permuted(place, size, self.seed, numbers, turn)

    def __getstate__(self) -> dict[str, Any]:
        # For workers: a running generator and a Trainer cannot be sent to another process.
        return {**self.__dict__, "_segments": [], "_rest": None, "trainer": None}

    def test_dataloader(self) -> DataLoader:
        """Batches from the beginning of the stream on."""
        return DataLoader(
            _Batches(self),
            batch_size=None,
            num_workers=self.num_workers,
            prefetch_factor=4 if self.num_workers else None,
            persistent_workers=False,
        )


class _Batches(IterableDataset):
    """The stream batch by batch; with n workers, worker w makes batches w, w + n, ..."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        images, size = self.stream.images, self.stream.batch_size
        for number in naturals(first, step):
            end = number * size + size if images is None else min(number * size + size, images)
            if number * size >= end:
                return
            yield self.stream.batch(torch.arange(number * size, end))
