"""Runs cells in several processes of this machine; one that dies takes only its cell along."""

import contextlib
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection, wait

from ...endings import how_it_ended, when_parent_ends
from ...files import no_links
from ...run_folder import OUTPUT
from .attempt import STOPPING, Outcome, attempt
from .cell import Cell


class Worker:
    """A process that runs one cell after the other, and imports packages once."""

    def __init__(self, number: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # torch and CUDA do not survive a fork
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, number, threads))
        self.process.start()
        theirs.close()
        self.cell: Cell | None = None

    def start(self, cell: Cell) -> None:
        self.cell = cell
        self.pipe.send(cell)

    def outcome(self) -> Outcome | None:
        """What became of its cell, None if that is still under way."""
        assert self.cell is not None
        dead = (
            not self.process.is_alive()
        )  # checked first, as the process may end right after its answer
        with contextlib.suppress(EOFError, ConnectionError):
            if self.pipe.poll():
                return self.pipe.recv()
            if not dead:
                return None
        self.process.join()
        how = how_it_ended(self.process.exitcode or 0)
        return Outcome(self.cell, "died", f"the process that ran it {how}")


class ProcessExecutor:
    """Up to `jobs` processes at once, which share the cores, and the GPUs if there are any."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.threads = jobs, threads_each(jobs)
        self._workers: dict[int, Worker] = {}

    def free(self) -> bool:
        return len(self._busy()) < self.jobs

    def start(self, cell: Cell) -> None:
        number = next(n for n in range(self.jobs) if n not in self._busy())
        worker = self._workers.get(number)
        if worker is None or not worker.process.is_alive():
            worker = self._workers[number] = Worker(number, self.threads)
        worker.start(cell)

    def wait(self, seconds: float) -> list[Outcome]:
        busy = self._busy()
        wait([worker.pipe for worker in busy.values()], seconds)
        ended = []
        for worker in busy.values():
            outcome = worker.outcome()
            if outcome is not None:
                ended.append(outcome)
                worker.cell = None
        return ended

    def stop(self) -> None:
        """Running cells save their state and stop; a second Ctrl-C ends them at once."""
        if self._busy():
            print(STOPPING, flush=True)
        try:
            for worker in self._workers.values():
                if worker.cell is not None and worker.process.is_alive():
                    worker.process.terminate()
                worker.pipe.close()
            for worker in self._workers.values():
                worker.process.join()
        finally:
            for worker in self._workers.values():
                worker.process.kill()

    def _busy(self) -> dict[int, Worker]:
        return {n: worker for n, worker in self._workers.items() if worker.cell is not None}


def work(pipe: Connection, number: int, threads: int) -> None:
    """The main loop of a worker: runs cells from the pipe until it is closed."""
    os.setsid()  # Ctrl-C reaches the suite alone, which then tells its workers
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))  # the run saves its state
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # before torch is imported
    if (
        sys.platform == "linux"
    ):  # else loaders would start their workers as we were, and import it all
        multiprocessing.set_start_method("fork", force=True)
    with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError):
        while True:
            cell: Cell = pipe.recv()
            redirect_output(cell)
            pipe.send(attempt(cell, number))


def redirect_output(cell: Cell) -> None:
    """Redirect all output, including that of C libraries, to the cell's folder."""
    with contextlib.suppress(OSError), open(cell.folder / OUTPUT, "ab", opener=no_links) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def threads_each(jobs: int) -> int:
    """The threads of each of several processes that share the cores."""
    return max(1, cores() // jobs)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
