"""Run cells in several processes of this machine; a process that dies loses only its own cell."""

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
    """A process that runs cells one after another and imports packages only once."""

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
        """The outcome of its cell, None while it is running."""
        assert self.cell is not None
        # Checked before polling, as the process may exit right after sending its outcome.
        dead = not self.process.is_alive()
        with contextlib.suppress(EOFError, ConnectionError):
            if self.pipe.poll():
                return self.pipe.recv()
            if not dead:
                return None
        self.process.join()
        how = how_it_ended(self.process.exitcode or 0)
        return Outcome(self.cell, "died", f"the process running it {how}")


class ProcessExecutor:
    """Runs cells in up to `jobs` processes at once, which share the cores and any GPUs."""

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
        """Let running cells save their state and stop; a second Ctrl-C ends them immediately."""
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
    """The main loop of a worker: run cells from the pipe until it is closed."""
    os.setsid()  # Ctrl-C reaches only the suite's process, which then stops its workers
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))  # the run saves its state
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # before torch is imported
    if sys.platform == "linux":
        # Data loaders would otherwise spawn their workers, which then import everything again.
        multiprocessing.set_start_method("fork", force=True)
    with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError):
        while True:
            cell: Cell = pipe.recv()
            redirect_output(cell)
            pipe.send(attempt(cell, number))


def redirect_output(cell: Cell) -> None:
    """Redirect all output, including that of C libraries, to a file in the cell's folder."""
    with contextlib.suppress(OSError), open(cell.folder / OUTPUT, "ab", opener=no_links) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def threads_each(jobs: int) -> int:
    """The number of threads for each of `jobs` processes that share the cores."""
    return max(1, cores() // jobs)


def cores() -> int:
    """The number of processor cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
