"""The batches of a stream: made by worker processes, divided among ranks, finished on the device."""

import atexit
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .. import HoldfastError
from ..batch import Batch
from ..endings import when_parent_ends
from .ahead import ahead

_T = TypeVar("_T")
_RUNNING: WeakSet[Any] = WeakSet()  # iterators of loaders with workers


class Batches(IterableDataset):
    """A stream batch by batch; with n workers, worker w makes batches w, w + n, ...

    `make` gives the samples at positions [B], which go from `start` to `images` (None: without end).
    Where several ranks share the work, each makes its part of every batch, which may be empty.
    """

    def __init__(
        self, make: Callable[[Tensor], Batch], start: int, images: int | None, size: int
    ) -> None:
        self.make, self.start, self.images, self.size = make, start, images, size
        self.rank, self.ranks = 0, 1

    def positions(self, number: int) -> Tensor:
        """Positions [B] of the samples of a batch; none after the end."""
        first = self.start + number * self.size
        last = first + self.size if self.images is None else min(first + self.size, self.images)
        return torch.arange(first, max(first, last))

    def __iter__(self) -> Iterator[Batch | HoldfastError]:
        worker = get_worker_info()
        numbers = count(worker.id, worker.num_workers) if worker else count()
        try:
            for index in map(self.positions, numbers):
                if not len(index):
                    return
                part = index.tensor_split(self.ranks)[self.rank]
                batch = self.make(part if len(part) else index)
                batch = batch if len(part) else Batch(*(rows[:0] for rows in batch))
                yield _in_shared_memory(batch) if worker else batch
        except HoldfastError as refusal:
            yield refusal


class StreamLoader:
    """Finishes batches in the main process, by `finish`.

    It contains a DataLoader, since a predicting Trainer gives DataLoaders a sampler. It corrupts on the
    device itself, so that EATA's look-ahead and loops without a Trainer get corrupted batches too.
    """

    join: Callable[[Iterator[Batch]], Iterator[Batch]] = staticmethod(iter)

    def __init__(
        self,
        batches: Batches,
        num_workers: int,
        finish: Callable[[Batch], Batch],
        device: torch.device,
    ) -> None:
        self.dataset, self.finish, self.device = batches, finish, device
        if batches.images is not None and batches.images - batches.start <= batches.size:
            num_workers = 0  # a single batch is not there earlier if another process makes it
        self.loader: DataLoader = DataLoader(
            batches,
            batch_size=None,
            num_workers=num_workers,
            prefetch_factor=4 if num_workers else None,
            pin_memory=device.type == "cuda",
            worker_init_fn=_leave_endings_to_the_main_process,
            # Else it would draw from the global numbers, at another moment in a run that is resumed.
            generator=torch.Generator(),
        )

    def __len__(self) -> int:
        """The number of batches.

        Raises TypeError if the stream is endless, or at its end: a Trainer would skip a run without
        batches, even a resumed one that only has to write its results.
        """
        images, start = self.dataset.images, self.dataset.start
        if images is None or images <= start:
            raise TypeError("the length of this stream is not known")
        return -(-(images - start) // self.dataset.size)

    def divide(
        self, rank: int, ranks: int, join: Callable[[Iterator[Batch]], Iterator[Batch]]
    ) -> None:
        """Make only this rank's part of each batch; `join` puts the parts of all together."""
        self.dataset.rank, self.dataset.ranks, self.join = rank, ranks, join

    def __iter__(self) -> Iterator[Batch]:
        batches = iter(self.loader)
        if self.loader.num_workers:
            _end_before_torch(batches)
        parts = map(self.finish, _raise_refusals(batches))
        del batches
        yield from self.join(ahead(parts, self.device))


def _end_before_torch(batches: Any) -> None:
    """Let torch kill workers that hang, as they ignore its SIGTERM, and end them with the interpreter.

    The members of torch's iterator are private; checked on torch 2.15.0 (`_MultiProcessingDataLoaderIter`).
    """
    for worker in batches._workers:
        worker._popen.terminate = worker._popen.kill
    _RUNNING.add(batches)


@atexit.register
def _end_workers() -> None:
    """End the workers before the interpreter's own clean-up, in which torch does not join them."""
    for batches in list(_RUNNING):
        batches._shutdown_workers()


def _raise_refusals(items: Iterator[_T | HoldfastError]) -> Iterator[_T]:
    """The batches of a DataLoader; raises the errors among them.

    Workers return errors like data, because raised there they would carry the worker's traceback.
    """
    for item in items:
        if isinstance(item, HoldfastError):
            del items  # else the exception keeps the workers until gc meets them: 5 s for each
            raise item
        yield item


class WorkerDied(HoldfastError):
    """A process that makes batches was killed; the run can continue from its last checkpoint."""


def _leave_endings_to_the_main_process(worker: int) -> None:
    """Ignore Ctrl-C and SIGTERM, which reach all processes of a terminal or a cluster's job.

    The main process saves the run and then ends its workers. They also end, silently, if it is gone.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = _unless_disconnected
    when_parent_ends(lambda: os._exit(0))


def _unless_disconnected(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print the traceback of an error, other than that of a connection that the other side left."""
    if not isinstance(error, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, trace)


@contextlib.contextmanager
def death_in_a_sentence() -> Iterator[None]:
    """Raise WorkerDied instead of torch's error about a killed worker, even during a step.

    The connection is reset or ends if the worker dies while it hands over a batch.
    """
    try:
        yield
    except (RuntimeError, ConnectionResetError, EOFError) as error:
        # A connection's EOFError has no message, unlike a file's.
        lost = isinstance(error, ConnectionResetError) or (
            isinstance(error, EOFError) and not error.args
        )
        if not lost and not str(error).startswith("DataLoader worker (pid"):
            raise
        why = str(error).partition(". ")[0].rstrip(".") or "its connection ended"
        raise WorkerDied(
            f"A process that makes batches died ({why}; a SIGKILL usually means that memory "
            "ran out). Give fewer --data.num_workers or more memory; --resume continues from the last "
            "checkpoint."
        ) from error


def _in_shared_memory(batch: Batch) -> Batch:
    """Move a worker's batch to shared memory in its main thread; raises HoldfastError if it is full.

    In the thread that sends batches torch's error would be lost, and the main process wait forever.
    """
    try:
        return Batch(*(rows.share_memory_() for rows in batch))
    except RuntimeError as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise HoldfastError(
            "Shared memory (/dev/shm) is full. Start the container with a larger --shm-size, or pass "
            "fewer --data.num_workers (0 needs none) or a smaller --data.batch_size."
        ) from None
