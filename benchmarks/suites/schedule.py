"""Runs the cells of a suite, so that one that fails, dies or is run elsewhere does not hold up the rest."""

import contextlib
import gc
import os
import shutil
import time
import traceback
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ... import HoldfastError
from ...files import whole_file
from ...run_folder import ERROR, ROWS
from .. import lease
from ..results.state import Progress
from ..results.text import duration, percent
from .display import Display
from .grid import Cell, check_same

STOPPING = "stopping: the runs save their state (a second Ctrl-C ends them at once)"


class Outcome(NamedTuple):
    """What became of a cell: finished, failed, elsewhere (another process has it), or died."""

    cell: Cell
    state: str
    note: str = ""


class Executor(Protocol):
    """Where cells are run: in this process, in several of this machine, or on a cluster."""

    def free(self) -> bool:
        """Whether one more cell can be started now."""

    def start(self, cell: Cell) -> None:
        """Begin or go on with a cell."""

    def wait(self, seconds: float) -> list[Outcome]:
        """What has ended, after at most so long."""

    def stop(self) -> None:
        """Have what is running save its state, wait for that, and let go of all processes."""


class Here:
    """One cell after the other, in this process."""

    def __init__(self) -> None:
        self._ended: list[Outcome] = []

    def free(self) -> bool:
        return not self._ended

    def start(self, cell: Cell) -> None:
        self._ended.append(attempt(cell))

    def wait(self, seconds: float) -> list[Outcome]:
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        pass


class Schedule:
    """Brings the unfinished ones of some cells through an executor.

    Args:
        cells: none of them twice.
        executor: is stopped at the end, whatever that is.
        retries: how often a cell is begun again after the process that ran it has died.
    """

    def __init__(self, cells: list[Cell], executor: Executor, retries: int = 0) -> None:
        self.cells, self.executor, self.retries = cells, executor, retries
        self.outcomes: dict[Path, Outcome] = {}
        self._names = {
            cell.folder: f"[{n}/{len(cells)}] {'/'.join(cell.folder.parts[-2:])}"
            for n, cell in enumerate(cells, 1)
        }
        self._todo = [(0.0, cell) for cell in cells if not cell.finished]  # not before that time
        self._running = 0
        self._deaths: Counter[Path] = Counter()

    def run(self) -> Counter[str]:
        """Run them all; returns how many ended in which state."""
        try:
            with Display() as display:
                self._work(display)
                self._todo = [(0.0, cell) for cell in self._left_by_others()]
                self._work(display)
        finally:
            self.executor.stop()
        return Counter(
            "finished" if cell.finished else state for cell, state, _ in self.outcomes.values()
        )

    def _work(self, display: Display) -> None:
        while self._todo or self._running:
            due = [entry for entry in self._todo if entry[0] <= time.monotonic()]
            while due and self.executor.free():
                self._todo.remove(entry := due.pop(0))
                self._running += 1
                cell = entry[1]
                display.begin(cell.folder, self._names[cell.folder])
                self.executor.start(cell)
            for outcome in self.executor.wait(1):
                self._running -= 1
                self._take(outcome, display)

    def _take(self, outcome: Outcome, display: Display) -> None:
        cell = outcome.cell
        if outcome.state == "died" and self._deaths[cell.folder] < self.retries:
            self._deaths[cell.folder] += 1
            # On this machine a dead owner is known at once, on another its lease has to run out.
            wait = lease.SECONDS if lease.owner(cell.folder) else 0.0
            self._todo.append((time.monotonic() + wait, cell))
            text = f"{outcome.note}; it will go on"
        else:
            if outcome.state == "died":
                outcome = failed(cell, outcome.note)
            self.outcomes[cell.folder] = outcome
            text = told(outcome)
        display.end(cell.folder, f"{self._names[cell.folder]}: {text}")

    def _left_by_others(self) -> list[Cell]:
        """What other processes had and hold no more, though it is not finished."""
        theirs = [o.cell for o in self.outcomes.values() if o.state == "elsewhere"]
        return [cell for cell in theirs if not cell.finished and not lease.owner(cell.folder)]


def attempt(cell: Cell, worker: int = 0) -> Outcome:
    """Run a cell or go on with it, unless another process does; errors are written down.

    Args:
        cell: what to run.
        worker: the number of this process; where there are several GPUs, they are taken in turn.
    """
    try:
        check_same(cell)
        with lease.Lease(cell.folder) as held:
            # It may have been finished by another process after it was put on the list.
            return Outcome(cell, "finished") if cell.finished else run_cell(cell, held, worker)
    except (lease.Busy, lease.LeaseLost):
        return Outcome(cell, "elsewhere", lease.owner(cell.folder) or "another process")
    except HoldfastError as error:
        return Outcome(cell, "failed", str(error))


def run_cell(cell: Cell, held: lease.Lease, worker: int) -> Outcome:
    """The same with the lease in hand."""
    import torch  # here: this and lightning take seconds to import

    from ...callbacks.guard import Guard
    from ..test import run

    (cell.folder / ERROR).unlink(missing_ok=True)
    if held.took_over:
        cut_off(cell.folder / ROWS)
    always = {"out": str(cell.folder), "resume": True, "progress": False}
    try:
        held.check()
        config = on_device(deepcopy(cell.config), worker, torch.cuda.device_count())
        run({**config, **always}, Guard(held.check))
    except lease.LeaseLost:
        raise
    except Exception as error:
        return failed(cell, in_one_line(error), traceback.format_exc())
    finally:
        gc.collect()
    return Outcome(cell, "finished")


def cut_off(path: Path) -> None:
    """Put a copy in the file's place: what an owner who only stood still may yet write goes nowhere."""
    if path.exists():
        with whole_file(path) as copy:
            shutil.copyfile(path, copy)


def on_device(config: dict[str, Any], worker: int, gpus: int) -> dict[str, Any]:
    """The configuration with its GPU, if there are several and the run is for one."""
    trainer = config.setdefault("trainer", {})
    on_gpu = trainer.get("accelerator", "auto") in ("auto", "cuda", "gpu")
    if on_gpu and gpus > 1 and trainer.get("devices", 1) == 1:
        trainer["devices"] = [worker % gpus]
    return config


def failed(cell: Cell, message: str, details: str = "") -> Outcome:
    """Note in the cell's folder why it failed."""
    with contextlib.suppress(OSError):  # a full disk may be the reason
        (cell.folder / ERROR).write_text(f"{message}\n\n{details}")
    return Outcome(cell, "failed", message)


def in_one_line(error: Exception) -> str:
    """An error's message; its kind as well, if it is not meant for the user."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, HoldfastError) else f"{type(error).__name__}: {text}"


def told(outcome: Outcome) -> str:
    """An outcome in a few words."""
    if outcome.state == "finished":
        run = Progress(outcome.cell.folder).update()
        done = f"{run.images:,} images in {duration(run.seconds)}"
        return f"accuracy {percent(run.accuracy)}, {done}"
    if outcome.state == "elsewhere":
        return f"is being run by {outcome.note}"
    return f"{outcome.state}: {outcome.note}"


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
