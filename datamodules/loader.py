"""The batches of a stream: made by workers, divided among ranks, corrupted on the device if asked for."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as naturals
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .. import HoldfastError
from ..batch import Batch
from .workers import batches_of, share

T = TypeVar("T")


class BatchMaker(Protocol):
    """What a loader needs of a `Stream`."""

    images: int | None
    batch_size: int
    start: int
    on_device: bool
    cache: Any
    trainer: Any
    skipped: int

    @property
    def skipped_before(self) -> int: ...

    def batch(self, index: Tensor) -> Batch: ...

    def clean(self, index: Tensor) -> Batch: ...

    def corrupted(self, batch: Batch) -> Batch: ...


class Batches(IterableDataset):
    """A stream batch by batch; with n workers, worker w makes batches w, w + n, ...

    Where several ranks share the work, each makes its part of every batch, which may be empty.
    """

    def __init__(self, stream: BatchMaker) -> None:
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
        if self.stream.cache:
            make = partial(self.stream.cache.batch, make=make)
        for number in naturals(*((worker.id, worker.num_workers) if worker else (0, 1))):
            index = self.positions(number)
            if not len(index):
                return
            own = index.tensor_split(self.ranks)[self.rank]
            batch = make(own) if len(own) else Batch(*(rows[:0] for rows in make(index)))
            if worker:
                share(batch)
            yield batch


class StreamLoader(DataLoader):
    """Counts what could not be read, and corrupts batches on the device where that was asked for.

    Not in a hook of the Trainer, so that whoever iterates gets corrupted batches: EATA, which looks
    ahead, and loops without a Trainer.
    """

    dataset: Batches
    join: Callable[[Iterator[Batch]], Iterator[Batch]] = staticmethod(iter)

    def __len__(self) -> int:
        """Batches, some of which may have no image that can be read.

        An endless stream raises TypeError; so does one that is at its end, since a Trainer would
        skip a run of no batches, and a resumed run that has only its results to write with it.
        """
        images, start = self.dataset.stream.images, self.dataset.stream.start
        if images is None or images <= start:
            raise TypeError("the length of this stream is not known")
        return -(-(images - start) // self.dataset.stream.batch_size)

    def divide(
        self, rank: int, ranks: int, join: Callable[[Iterator[Batch]], Iterator[Batch]]
    ) -> None:
        """Make only this rank's part of each batch; `join` puts the parts of all together."""
        self.dataset.rank, self.dataset.ranks, self.join = rank, ranks, join

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        stream = self.dataset.stream
        stream.skipped = stream.skipped_before
        for number, batch in enumerate(self.join(self.corrupted())):
            stream.skipped += len(self.dataset.positions(number)) - len(batch.labels)
            if len(batch.labels):
                yield batch

    def corrupted(self) -> Iterator[Batch]:
        """Each batch, or this rank's part of it, with its corruptions."""
        stream = self.dataset.stream
        for batch in raise_refusals(batches_of(self)):
            if stream.on_device:
                trainer = stream.trainer
                device = trainer.strategy.root_device if trainer else torch.device("cpu")
                batch = stream.corrupted(batch._replace(images=batch.images.to(device)))
            yield batch


def raise_refusals(items: Iterator[T | HoldfastError]) -> Iterator[T]:
    """What a DataLoader yields; raises the refusals among it.

    Workers hand them over like data, since raised there they would come with the worker's traceback.
    """
    for item in items:
        if isinstance(item, HoldfastError):
            del items  # else the exception keeps the workers until gc meets them: 5 s for each
            raise item
        yield item
