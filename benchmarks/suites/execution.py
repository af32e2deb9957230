"""Run the cells of a suite: in this process, in several processes, or on a Ray cluster."""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import deepcopy
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from tqdm import tqdm

from ... import HoldfastError, printable
from ...endings import how_it_ended, sigterm_as_ctrl_c, when_parent_ends
from ...files import whole_file
from ...run_folder import ERROR, OUTPUT, Busy
from ..results.runs import Run
from ..results.text_table import duration, percent
from .cell import Cell, check_same

_LONG = 60  # seconds that are worth a forecast
STOPPING = "stopping: runs save their state (press Ctrl-C again to end them immediately)"


class Outcome(NamedTuple):
    """The outcome of a cell: finished, failed, elsewhere (another process runs it), or died."""

    cell: Cell
    state: str
    note: str = ""

    def text(self, per_image: bool = False) -> str:
        """The outcome in words, with the accuracy over batches or `per_image`."""
        if self.state == "finished":
            run = Run.load(self.cell.folder)
            accuracy = percent(run.accuracy_per_image if per_image else run.accuracy)
            kind = "per image" if per_image else "mean over batches"
            return f"accuracy {accuracy} ({kind}), {run.images:,} images in {duration(run.seconds)}"
        if self.state == "elsewhere":
            return f"already running in {self.note}"
        return f"{self.state}: {self.note}"


class Runner(Protocol):
    """Runs cells in other processes, up to `jobs` at once."""

    jobs: int

    def __call__(self, cell: Cell) -> Outcome:
        """Start or resume a cell, and wait for its end."""

    def stop(self) -> None:
        """Let running cells save their state; no other begins."""

    def kill(self) -> None:
        """End running cells immediately."""


def run_all(
    cells: list[Cell], runner: Runner | None = None, retries: int = 0, per_image: bool = False
) -> Counter[str]:
    """Run the unfinished cells; returns the number in each final state.

    A cell that fails, dies or runs elsewhere does not delay the others.

    Args:
        cells: the cells, without duplicates.
        runner: where they run; None: one after another in this process.
        retries: maximum number of restarts of a cell whose process dies.
        per_image: report accuracies per image rather than means over batches.
    """
    folders = enumerate((cell.folder for cell in cells), 1)
    names = {path: f"[{n}/{len(cells)}] {'/'.join(path.parts[-2:])}" for n, path in folders}
    ended = {cell.folder: "finished" for cell in cells if cell.finished}
    todo = [cell for cell in cells if not cell.finished]
    lengths = {cell.folder: length(cell) for cell in todo}
    seconds: dict[str, list[float]] = {}

    def run(cell: Cell) -> Outcome:
        begun = time.monotonic()
        for retry in range(retries + 1):
            say(cell, " begins")
            outcome = runner(cell) if runner else attempt(cell, progress=sys.stdout.isatty())
            if outcome.state != "died" or retry == retries:
                break
            say(cell, f": {outcome.note.removesuffix('.')}; it will be resumed")
        if outcome.state == "finished":
            seconds.setdefault(lengths[cell.folder], []).append(time.monotonic() - begun)
        return outcome

    def say(cell: Cell, text: str) -> None:
        bar.write(printable(f"{names[cell.folder]}{text}"))

    with (
        sigterm_as_ctrl_c(),
        contextlib.ExitStack() as after,
        tqdm(unit=" runs", total=len(todo), disable=None, leave=False) as bar,
    ):
        after.callback(gc.unfreeze)  # what `attempt` froze; else nanobind complains at the end
        for _ in range(2):  # the second time those that other processes have left unfinished
            for outcome in map(run, todo) if runner is None else outcomes(todo, runner, run):
                if outcome.state == "died":
                    outcome = failed(outcome.cell, outcome.note)
                ended[outcome.cell.folder] = outcome.state
                bar.update()
                of_rest = [lengths[folder] for folder in lengths.keys() - ended.keys()]
                rest = time_left(of_rest, seconds) / (runner.jobs if runner else 1)
                left = f"; about {duration(rest)} left" if rest > _LONG else ""
                say(outcome.cell, f": {outcome.text(per_image)}{left}")
            todo = [cell for cell in todo if ended[cell.folder] == "elsewhere"]
    return Counter(ended.values())


def time_left(lengths: Sequence[str], seconds: Mapping[str, Sequence[float]]) -> float:
    """The seconds that runs take in sequence, from finished ones by length; 0 while a length has none."""
    if not seconds.keys() >= {*lengths}:
        return 0.0
    return sum(number * fmean(seconds[key]) for key, number in Counter(lengths).items())


def length(cell: Cell) -> str:
    """What of its data decides how many images a run has."""
    return str([*cell.of_data("class_path", "images", "each", "split")])


def outcomes(
    cells: list[Cell], runner: Runner, run: Callable[[Cell], Outcome]
) -> Iterator[Outcome]:
    """Run the cells with a runner; after an error or Ctrl-C it is stopped."""
    pool = ThreadPoolExecutor(runner.jobs)
    try:
        for future in as_completed([pool.submit(run, cell) for cell in cells]):
            yield future.result()
    finally:
        try:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            pool.shutdown()
        except KeyboardInterrupt:
            runner.kill()
            raise


def attempt(cell: Cell, worker: int = 0, progress: bool = False) -> Outcome:
    """Start or resume a cell in this process, unless another process runs it; errors are recorded.

    worker: the index of this process, which selects the GPU if there are several.
    """
    import torch  # deferred: torch is slow to import

    from ...datamodules.loader import WorkerDied
    from ..test import run

    gc.freeze()  # the collection after the run then sees only what the run left
    (cell.folder / ERROR).unlink(missing_ok=True)
    config = choose_gpu(deepcopy(cell.config), worker, torch.cuda.device_count())
    try:
        check_same([cell])
        run({**config, "out": str(cell.folder), "resume": True, "progress": progress})
    except Busy as error:
        return Outcome(cell, "elsewhere", str(error).partition("run by ")[2].removesuffix("."))
    except WorkerDied as error:
        return Outcome(cell, "died", str(error))
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        kind = "" if isinstance(error, HoldfastError) else f"{type(error).__name__}: "
        return failed(cell, kind + text, traceback.format_exc())
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


def failed(cell: Cell, message: str, details: str = "") -> Outcome:
    """Write the reason for a failure to the cell's folder."""
    with (
        contextlib.suppress(OSError),  # such as a full disk
        whole_file(cell.folder / ERROR) as partial,
    ):
        partial.write_text(f"{message}\n\n{details}")
    return Outcome(cell, "failed", message)


class Processes:
    """Runs cells in `jobs` processes, which share the cores and any GPUs; one that dies is replaced."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        # Processes are forked from one that has imported torch, but neither started threads nor CUDA.
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks:
            self._context.set_forkserver_preload(["holdfast.benchmarks.test"])
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // jobs)))
        self._free: SimpleQueue[int] = SimpleQueue()
        for number in range(jobs):
            self._free.put(number)
        self._workers: dict[int, tuple[BaseProcess, Connection]] = {}
        self._running: set[int] = set()
        self._lock, self._stopped = threading.Lock(), False

    def __call__(self, cell: Cell) -> Outcome:
        number, outcome = self._free.get(), None
        with self._lock:
            if self._stopped:
                return Outcome(cell, "stopped")
            if number not in self._workers:
                self._workers[number] = self._start(number)
            process, pipe = self._workers[number]
            self._running.add(number)
        with contextlib.suppress(OSError, EOFError):  # of a process that has died
            pipe.send(cell)
            wait([pipe, process.sentinel])
            outcome = pipe.recv()._replace(cell=cell) if pipe.poll() else None
        with self._lock:
            self._running.remove(number)
            if outcome is None:
                del self._workers[number]
        self._free.put(number)
        if outcome is not None:
            return outcome
        process.join()
        state = "stopped" if self._stopped else "died"
        return Outcome(cell, state, f"the process running it {how_it_ended(process.exitcode or 0)}")

    def _start(self, number: int) -> tuple[BaseProcess, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(number, theirs))
        process.start()
        theirs.close()
        return process, ours

    def stop(self) -> None:
        with self._lock:
            self._stopped = bool(self._running)
            if self._stopped:
                print(STOPPING, flush=True)
            for number in [*self._workers]:
                if number in self._running:
                    self._workers[number][0].terminate()
                else:
                    self._workers.pop(number)[1].close()  # which ends it

    def kill(self) -> None:
        for process, _ in [*self._workers.values()]:
            process.kill()


def work(number: int, pipe: Connection) -> None:
    """`attempt` for cell after cell; the output of each goes to a file in its folder."""
    os.setsid()  # Ctrl-C reaches only the suite's process, which then stops its workers
    with (
        sigterm_as_ctrl_c(),
        contextlib.suppress(EOFError),
    ):  # a signal makes the run save its state
        when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
        if sys.platform == "linux":
            # Data loaders would otherwise spawn their workers, which then import everything again.
            multiprocessing.set_start_method("fork", force=True)
        while True:
            cell = pipe.recv()
            redirect_output(cell)
            pipe.send(attempt(cell, number))


def redirect_output(cell: Cell) -> None:
    """Redirect all output, including that of C libraries, to a file in the cell's folder."""
    with contextlib.suppress(OSError), (cell.folder / OUTPUT).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def cores() -> int:
    """The number of processor cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
