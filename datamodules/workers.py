"""Worker processes that generate batches: signals, shutdown, and the shared memory they need."""

import atexit
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any, TypeVar
from weakref import WeakSet

from torch import Tensor
from torch.utils.data import DataLoader

from .. import HoldfastError
from ..endings import held, how_it_ended, when_parent_ends

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHARED = "/dev/shm"  # through which batches come, on Linux
HELD = (
    3  # batches that the main process has not let go of: of this step, the one before and the next
)
DIED = "DataLoader worker (pid"  # so torch's errors begin
REMEDY = (
    "start the container with a larger --shm-size, or give fewer --data.num_workers (0 needs no shared "
    "memory) or a smaller --data.batch_size."
)
RUNNING: WeakSet[Any] = WeakSet()  # iterators of DataLoaders


class WorkerDied(HoldfastError):
    """A process that makes batches was killed; the run can continue from its last checkpoint."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"a process that makes batches {how}: give fewer --data.num_workers or more memory; --resume "
            "continues from the last checkpoint."
        )


def leave_signals_to_the_main_process(worker: int) -> None:
    """Ignore Ctrl-C and SIGTERM, which reach all processes of a terminal or a cluster's job.

    The main process saves the run and then ends its workers; they end too when it is gone.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # Windows lacks it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    when_parent_ends(lambda: os._exit(0))


def batches_of(loader: DataLoader) -> Iterator[Any]:
    """Iterate over a DataLoader, whose workers end with this iterator.

    Raises:
        WorkerDied: if one is killed while a batch is waited for.
        HoldfastError: if there is no room for their batches in shared memory.
    """
    room = free_shared_memory() if loader.num_workers else None
    try:
        with held(*SIGNALS):
            batches = DataLoader.__iter__(loader)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise HoldfastError(f"{SHARED} is full: {REMEDY}") from error
    workers = getattr(batches, "_workers", [])
    for worker in workers:  # a worker that hangs would ignore the SIGTERM that torch finally sends
        worker._popen.terminate = worker._popen.kill
    if workers:
        RUNNING.add(batches)
    try:
        for batch in batches:
            if room is not None and not isinstance(batch, HoldfastError):
                check_room(room, size(batch), loader.num_workers, loader.prefetch_factor or 0)
                room = None
            yield batch
    except (RuntimeError, EOFError, OSError) as error:
        if code := exit_code(workers):
            raise WorkerDied(how_it_ended(code)) from error
        raise
    finally:
        if workers:
            batches._shutdown_workers()  # type: ignore[attr-defined]


@atexit.register
def end_workers() -> None:
    """End the workers before the interpreter's own clean-up, in which torch does not join them."""
    for batches in list(RUNNING):
        batches._shutdown_workers()


def exit_code(workers: list[Any]) -> int | None:
    """The exit code of a worker that failed; None if all are alive or ended normally."""
    ended = wait([worker.sentinel for worker in workers], 1) if workers else []
    for worker in workers:
        if worker.sentinel in ended:
            worker.join(5)
    return next((worker.exitcode for worker in workers if worker.exitcode), None)


@contextlib.contextmanager
def death_in_a_sentence() -> Iterator[None]:
    """Raise WorkerDied instead of torch's error about a killed worker, even during a step."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith(DIED):
            raise
        how = str(error).rpartition(") ")[2].partition(".")[0]
        raise WorkerDied(how.replace("is killed by signal: Killed", how_it_ended(-9))) from error


# ---- shared memory ----------------------------------------------------------------------------------


def free_shared_memory() -> int | None:
    """The free bytes; None where batches do not pass through a file system of limited size."""
    if sys.platform != "linux":
        return None
    try:
        found = os.statvfs(SHARED)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def size(batch: tuple[Tensor, ...]) -> int:
    """Bytes of a batch of images [B,3,H,W] and labels [B]."""
    return sum(rows.untyped_storage().nbytes() for rows in batch)


def check_room(free: int, batch: int, workers: int, prefetch: int) -> None:
    """Raise HoldfastError if a run's workers would fill the shared memory.

    Args:
        free: bytes of shared memory before the first batch was made.
        batch: bytes of a batch.
        workers: processes that make batches.
        prefetch: batches that each makes ahead.
    """
    need = (workers * prefetch + HELD) * batch
    if need > free:
        raise HoldfastError(
            f"The prefetched batches of {workers} workers need {need / 1000000.0:.1f} MB of shared "
            f"memory, but {SHARED} has only {free / 1000000.0:.1f} MB free: {REMEDY}"
        )


def share(batch: tuple[Tensor, ...]) -> None:
    """Move a worker's tensors, of any shape, to shared memory in its main thread, which can report errors.

    In the thread that sends batches torch's error is lost, and the main process would wait forever.

    Raises HoldfastError if it is full.
    """
    try:
        for rows in batch:
            rows.share_memory_()
    except RuntimeError as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise HoldfastError(f"{SHARED} is full: {REMEDY}") from None
