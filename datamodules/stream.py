"""A stream of corrupted images in which any position can be reached at once."""

import os
import signal
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import count as naturals
from typing import Any, NamedTuple, TypeVar

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .. import HoldfastError, in_range
from .batch import Batch
from .corruptions import corrupt, jpeg
from .corruptions.parameters import check_table
from .counter import mix, permuted
from .sources.base import UNREAD, ImageSource

T = TypeVar("T")
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
        names = [f"{name}@{level:g}" if level else name for name, level in self.corruptions]
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
        on_device: corrupt on the Trainer's device instead of in the workers, which then only read and
            crop; the pixels differ by the tolerance that the corruption engine states.
        start: the position to begin at.
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
        on_device: bool = False,
        start: int = 0,
    ) -> None:
        super().__init__()
        in_range(1, batch_size=batch_size, images=images)
        in_range(0, num_workers=num_workers)
        in_range(1, 100, quality=quality)
        check_table(table)
        if start < 0 or (images is not None and start >= images):
            raise HoldfastError(f"start={start} is not in a stream of {images} images.")
        self.source, self.images, self.seed = source, images, seed
        self.table, self.quality = table, quality
        self.batch_size, self.num_workers = batch_size, num_workers
        self.on_device, self.start = on_device, start
        self.skipped = 0  # images that could not be read
        # The position reached, and start plus the images used up to it.
        self._passed = self._used = start
        self._segments: list[Segment] = []
        self._rest: Iterator[tuple[Corruptions, int]] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What the pixels depend on, for a run's provenance; subclasses add their own arguments."""
        facts = {"stream": type(self).__name__, "source": repr(self.source)}
        return facts | {
            name: getattr(self, name) for name in ("images", "seed", "table", "quality")
        }

    # ---- what a stream consists of: overridden by subclasses --------------------------------------

    @abstractmethod
    def stretches(self) -> Iterator[tuple[Corruptions, int]]:
        """Corruptions and number of images of each segment in turn, for ever or to the end."""

    def source_of(self, number: int) -> ImageSource:
        """Where the images of a segment come from."""
        return self.source

    def applied(self, number: int) -> Corruptions:
        """What is left to do to the source's images in a segment."""
        return self.segment(number).corruptions

    def drawn(self, index: Tensor, number: int) -> Tensor:
        """Which source images the positions [B] of one segment show: in every segment another order."""
        place = index - self.segment(number).start
        size = len(self.source_of(number))
        return permuted(place % size, size, self.seed, number, place // size)

    # ---- segments ---------------------------------------------------------------------------------

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

    # ---- batches ----------------------------------------------------------------------------------

    def batch(self, index: Tensor) -> Batch:
        """The samples at positions `index` [B], without those that the source could not read."""
        return self.corrupted(self.clean(index))

    def clean(self, index: Tensor) -> Batch:
        """The same before its corruptions: images uint8."""
        numbers = torch.tensor([self.segment_at(i) for i in index.tolist()], dtype=torch.int64)
        chosen = torch.empty_like(index)
        here = {number: numbers == number for number in numbers.unique().tolist()}
        for number, place in here.items():
            chosen[place] = self.drawn(index[place], number)
        seeds = mix(mix(self.seed, index), 0)
        images = labels = None
        for source in {id(s): s for s in map(self.source_of, here)}.values():
            own = [place for number, place in here.items() if self.source_of(number) is source]
            place = torch.stack(own).any(0)
            pixels, classes = source.load(chosen[place], seeds[place])
            if images is None or labels is None:
                images = pixels.new_empty(len(index), *pixels.shape[1:])
                labels = classes.new_empty(len(index), *classes.shape[1:])
            images[place], labels[place] = pixels, classes
        assert images is not None
        assert labels is not None
        kept = labels.view(len(index), -1)[:, 0] != UNREAD
        return Batch(images[kept], labels[kept], index[kept], numbers[kept])

    def corrupted(self, batch: Batch) -> Batch:
        """A clean batch with its corruptions, on the device of its images: float32 in [0,1].

        All but the images stays on the CPU, where it is needed: asking a GPU for it would wait for it.
        """
        images, labels, index, numbers = batch
        seeds = mix(self.seed, index)
        for number in numbers.unique().tolist():
            here = (numbers == number).nonzero().squeeze(1)
            place = here.to(images.device)
            for slot, (name, severity) in enumerate(self.applied(number), start=1):
                slot_seeds = mix(seeds[here], slot)
                images[place] = corrupt(images[place], name, severity, slot_seeds, table=self.table)
        if self.quality is not None:
            images = jpeg(images, self.quality)
        return Batch(images.float() / 255, labels, index, numbers)

    def __getstate__(self) -> dict[str, Any]:
        # For workers: a running generator and a Trainer cannot be sent to another process.
        return {**self.__dict__, "_segments": [], "_rest": None, "trainer": None}

    def test_dataloader(self) -> DataLoader:
        """Batches from `start` on."""
        return _Loader(
            _Batches(self),
            batch_size=None,
            num_workers=self.num_workers,
            prefetch_factor=4 if self.num_workers else None,
            persistent_workers=False,
            worker_init_fn=leave_signals_to_the_main_process,
        )

    def passed(self, batch: Batch) -> None:
        """Note that a run has used this batch; one that goes on will begin behind it."""
        batches = (int(batch.index[-1]) - self.start) // self.batch_size + 1
        end = self.start + batches * self.batch_size
        self._passed = end if self.images is None else min(end, self.images)
        self._used += len(batch.labels)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._passed, "used": self._used}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.start = self._passed = state_dict["position"]
        self._used = state_dict["used"]

    def teardown(self, stage: str) -> None:
        if self.skipped:
            rank_zero_warn(f"{self.skipped} images could not be read and were left out")


class _Batches(IterableDataset):
    """The stream batch by batch; with n workers, worker w makes batches w, w + n, ...

    Where several ranks share the work, each makes its part of every batch, which may be empty.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.rank, self.ranks = 0, 1

    def positions(self, number: int) -> Tensor:
        """Positions of the samples of a batch; none after the end."""
        images, size = self.stream.images, self.stream.batch_size
        first = self.stream.start + number * size
        last = first + size if images is None else min(first + size, images)
        return torch.arange(first, max(first, last))

    def __iter__(self) -> Iterator[Batch | HoldfastError]:
        try:
            yield from self.batches()
        except HoldfastError as refusal:
            yield refusal

    def batches(self) -> Iterator[Batch]:
        """Those of this worker."""
        worker = get_worker_info()
        make = self.stream.clean if self.stream.on_device else self.stream.batch
        for number in naturals(*((worker.id, worker.num_workers) if worker else (0, 1))):
            index = self.positions(number)
            if not len(index):
                return
            part = index.tensor_split(self.ranks)[self.rank]
            yield make(part) if len(part) else Batch(*(rows[:0] for rows in make(index)))


class _Loader(DataLoader):
    """Counts what could not be read, and finishes batches on the device where that was asked for.

    Here and not in a hook of the Trainer, so that whoever iterates gets finished batches: EATA, which
    looks ahead, and loops without a Trainer.
    """

    dataset: _Batches
    together: Callable[[Iterator[Batch]], Iterator[Batch]] = staticmethod(iter)

    def divide(
        self, rank: int, ranks: int, together: Callable[[Iterator[Batch]], Iterator[Batch]]
    ) -> None:
        """Make only this rank's part of each batch; `together` joins the parts of all."""
        self.dataset.rank, self.dataset.ranks, self.together = rank, ranks, together

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        stream = self.dataset.stream
        stream.skipped = stream._passed - stream._used
        for number, batch in enumerate(self.together(self.finished())):
            stream.skipped += len(self.dataset.positions(number)) - len(batch.labels)
            if len(batch.labels):
                yield batch

    def finished(self) -> Iterator[Batch]:
        """Each batch, or this rank's part of it, with its corruptions."""
        stream = self.dataset.stream
        for batch in in_a_sentence(super().__iter__()):
            if stream.on_device:
                trainer = stream.trainer
                device = trainer.strategy.root_device if trainer else torch.device("cpu")
                batch = stream.corrupted(batch._replace(images=batch.images.to(device)))
            yield batch


def leave_signals_to_the_main_process(worker: int) -> None:
    """Do not complain of Ctrl-C or SIGTERM, which reach all processes of a terminal or a cluster's job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def in_a_sentence(items: Iterator[T | HoldfastError]) -> Iterator[T]:
    """What a DataLoader yields; raises the refusals among it.

    Workers hand them over like data, since raised there they would come with the worker's traceback.
    """
    for item in items:
        if isinstance(item, HoldfastError):
            del items  # else the exception keeps the workers until gc meets them: 5 s for each
            raise item
        yield item
