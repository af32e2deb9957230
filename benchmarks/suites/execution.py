"""Run the cells of a suite: in this process, in several processes, or on a Ray cluster."""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Protocol

from tqdm import tqdm

from ... import HoldfastError, printable
from ...endings import how_it_ended, sigterm_as_ctrl_c, when_parent_ends
from ...files import whole_file
from ...run_folder import ERROR, OUTPUT, Busy
from ..results.run_state import last_row
from ..results.runs import Run
from ..results.text_table import duration, percent
from .cell import Cell, check_same

STOPPING = "stopping: runs save their state (press Ctrl-C again to end them immediately)"


class Outcome(NamedTuple):
    """The outcome of a cell: finished, failed, elsewhere (another process runs it), or died."""

    cell: Cell
    state: str
    note: str = ""


class Executor(Protocol):
    """Where cells are run, up to `jobs` at once."""

    jobs: int

    def submit(self, cell: Cell) -> "Future[Outcome]":
        """Start or resume a cell; the future raises an exception if its process dies."""

    def death(self, cell: Cell, error: BaseException) -> str | None:
        """Why the process of a cell died, if that is what its exception means."""

    def stop(self) -> None:
        """Let running cells save their state, and wait for them; later calls are errors."""


def run_all(cells: list[Cell], executor: Executor, retries: int = 0) -> Counter[str]:
    """Run the unfinished cells; returns the number in each final state.

    A cell that fails, dies or runs elsewhere does not delay the others.

    Args:
        cells: the cells, without duplicates.
        executor: where they run; it is stopped at the end, also after an error or Ctrl-C.
        retries: maximum number of restarts of a cell whose process dies.
    """
    names = {
        c.folder: f"[{n}/{len(cells)}] {'/'.join(c.folder.parts[-2:])}"
        for n, c in enumerate(cells, 1)
    }
    todo = [cell for cell in cells if not cell.finished]
    ended: dict[Any, str] = {cell.folder: "finished" for cell in cells if cell.finished}
    try:
        with sigterm_as_ctrl_c():
            for _ in range(2):  # the second time those that other processes have left unfinished
                for outcome in outcomes(todo, executor, retries, names):
                    ended[outcome.cell.folder] = outcome.state
                todo = [cell for cell in todo if ended[cell.folder] == "elsewhere"]
    finally:
        executor.stop()
    return Counter(ended.values())


def outcomes(
    cells: list[Cell], executor: Executor, retries: int, names: dict[Any, str]
) -> Iterator[Outcome]:
    """Run the cells and yield their outcomes, with a line for each and the current progress."""
    todo, running, deaths = deque(cells), dict[Future[Outcome], Cell](), Counter[Any]()
    with tqdm(total=len(cells), unit=" runs", disable=None, leave=False) as bar:
        while todo or running:
            while todo and len(running) < executor.jobs:
                cell = todo.popleft()
                bar.write(printable(f"{names[cell.folder]} begins"))
                running[executor.submit(cell)] = cell
            for future in wait(running, 1, FIRST_COMPLETED).done:
                cell = running.pop(future)
                outcome = outcome_of(cell, future, executor)
                if outcome.state == "died" and deaths[cell.folder] < retries:
                    deaths[cell.folder] += 1
                    todo.append(cell)
                    text = f"{outcome.note.removesuffix('.')}; it will be resumed"
                else:
                    if outcome.state == "died":
                        outcome = record_failure(cell, outcome.note)
                    bar.update()
                    text = result_line(outcome)
                    yield outcome
                bar.write(printable(f"{names[cell.folder]}: {text}"))
            if not bar.disable:
                bar.set_postfix_str(", ".join(map(progress, running.values())))


def outcome_of(cell: Cell, future: "Future[Outcome]", executor: Executor) -> Outcome:
    """The outcome of a cell whose future has ended."""
    try:
        return future.result()._replace(cell=cell)
    except Exception as error:
        if note := executor.death(cell, error):
            return Outcome(cell, "died", note)
        return record_failure(cell, error_line(error), traceback.format_exc())


def progress(cell: Cell) -> str:
    """Method and images of a running cell."""
    return f"{cell.label} {last_row(cell.folder).get('images', 0):,} images"


def result_line(outcome: Outcome) -> str:
    """The message about a cell that has ended."""
    if outcome.state == "finished":
        run = Run.load(outcome.cell.folder)
        done = f"{run.images:,} images in {duration(run.seconds)}"
        return f"accuracy {percent(run.accuracy)}, {done}"
    if outcome.state == "elsewhere":
        return f"already running in {outcome.note}"
    return f"{outcome.state}: {outcome.note}"


# ---- one cell -------------------------------------------------------------------------------------


def attempt(cell: Cell, worker: int = 0, progress: bool = False) -> Outcome:
    """Start or resume a cell, unless another process runs it; errors are recorded.

    Args:
        cell: what to run.
        worker: the index of this process, which selects the GPU if there are several.
        progress: show the run's progress bar.
    """
    import torch  # deferred: torch is slow to import

    from ...datamodules.loader import WorkerDied
    from ..test import run

    (cell.folder / ERROR).unlink(missing_ok=True)
    config = choose_gpu(deepcopy(cell.config), worker, torch.cuda.device_count())
    try:
        check_same(cell)
        run({**config, "out": str(cell.folder), "resume": True, "progress": progress})
    except Busy as error:
        return Outcome(cell, "elsewhere", str(error).partition("run by ")[2].removesuffix("."))
    except WorkerDied as error:
        return Outcome(cell, "died", str(error))
    except Exception as error:
        return record_failure(cell, error_line(error), traceback.format_exc())
    finally:
        gc.collect()
    return Outcome(cell, "finished")


def choose_gpu(config: dict[str, Any], worker: int, gpus: int) -> dict[str, Any]:
    """Assign a single-GPU run to one of several GPUs."""
    trainer = config.setdefault("trainer", {})
    on_gpu = trainer.get("accelerator", "auto") in ("auto", "cuda", "gpu")
    if on_gpu and gpus > 1 and trainer.get("devices", 1) == 1:
        trainer["devices"] = [worker % gpus]
    return config


def record_failure(cell: Cell, message: str, details: str = "") -> Outcome:
    """Write the reason for a failure to the cell's folder."""
    with (
        contextlib.suppress(OSError),  # such as a full disk
        whole_file(cell.folder / ERROR) as partial,
    ):
        partial.write_text(f"{message}\n\n{details}")
    return Outcome(cell, "failed", message)


def error_line(error: BaseException) -> str:
    """An error's message, preceded by its type unless it is a HoldfastError."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, HoldfastError) else f"{type(error).__name__}: {text}"


# ---- executors on this machine --------------------------------------------------------------------


class SerialExecutor:
    """Runs cells one after another in this process."""

    jobs = 1

    def submit(self, cell: Cell) -> "Future[Outcome]":
        future: Future[Outcome] = Future()
        future.set_result(attempt(cell, progress=sys.stdout.isatty()))
        return future

    def death(self, cell: Cell, error: BaseException) -> str | None:
        return None

    def stop(self) -> None:
        pass


class ProcessExecutor:
    """Runs cells in `jobs` processes, which share the cores and any GPUs.

    Each process is a pool of its own, so that one that dies loses only its own cell.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        methods = multiprocessing.get_all_start_methods()
        # Processes are forked from one that has imported torch, but neither started threads nor CUDA.
        self._context = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        if "forkserver" in methods:
            self._context.set_forkserver_preload(["holdfast.benchmarks.test"])
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // jobs)))
        self._pools: dict[int, ProcessPoolExecutor] = {}
        self._processes: dict[int, BaseProcess] = {}
        self._running: dict[int, Future[Outcome]] = {}

    def submit(self, cell: Cell) -> "Future[Outcome]":
        free = (n for n in range(self.jobs) if n not in self._running or self._running[n].done())
        number = next(free)
        if number not in self._processes or not self._processes[number].is_alive():
            self._start(number)
        self._running[number] = self._pools[number].submit(work, cell, number)
        return self._running[number]

    def _start(self, number: int) -> None:
        pool = ProcessPoolExecutor(1, self._context, initializer=begin)
        pid = pool.submit(os.getpid).result()
        self._pools[number] = pool
        self._processes[number] = next(p for p in multiprocessing.active_children() if p.pid == pid)

    def death(self, cell: Cell, error: BaseException) -> str | None:
        if not isinstance(error, BrokenProcessPool):
            return None
        dead = (n for n, process in self._processes.items() if not process.is_alive())
        ended = [
            self._processes[n].exitcode or 0 for n in dead if self._running[n].exception() is error
        ]
        return f"the process running it {how_it_ended(*ended)}"

    def stop(self) -> None:
        """Let running cells save their state and stop; a second Ctrl-C ends them immediately."""
        busy = {n: future for n, future in self._running.items() if not future.done()}
        if busy:
            print(STOPPING, flush=True)
        try:
            for number in busy:
                self._processes[number].terminate()
            wait(busy.values())
        except KeyboardInterrupt:
            for number in busy:
                self._processes[number].kill()
            raise
        finally:
            for pool in self._pools.values():
                pool.shutdown()


def begin() -> None:
    """Prepare a new process for running cells."""
    os.setsid()  # Ctrl-C reaches only the suite's process, which then stops its workers
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    if sys.platform == "linux":
        # Data loaders would otherwise spawn their workers, which then import everything again.
        multiprocessing.set_start_method("fork", force=True)


def work(cell: Cell, number: int) -> Outcome:
    """`attempt` in a process of its own, whose output goes to a file in the cell's folder."""
    redirect_output(cell)
    suite = multiprocessing.parent_process()
    try:
        with sigterm_as_ctrl_c():  # the run saves its state
            return attempt(cell, number)
    finally:
        if suite is not None and not suite.is_alive():
            os._exit(0)  # nobody would send another cell


def redirect_output(cell: Cell) -> None:
    """Redirect all output, including that of C libraries, to a file in the cell's folder."""
    with contextlib.suppress(OSError), (cell.folder / OUTPUT).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def cores() -> int:
    """The number of processor cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
