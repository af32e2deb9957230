"""The order of cells: a cell that fails, dies or runs elsewhere does not delay the others."""

import time
from collections import Counter
from pathlib import Path

from ... import lease
from ..results.run_state import Progress
from ..results.text_table import duration, percent
from .attempt import Executor, Outcome, record_failure
from .cell import Cell
from .display import Display


class Schedule:
    """Runs the unfinished cells with an executor.

    Args:
        cells: the cells, without duplicates.
        executor: the executor, which is stopped at the end, also after an error or Ctrl-C.
        retries: maximum number of restarts of a cell whose process dies.
    """

    def __init__(self, cells: list[Cell], executor: Executor, retries: int = 0) -> None:
        self.cells, self.executor, self.retries = cells, executor, retries
        self.outcomes: dict[Path, Outcome] = {}
        self._names = {
            cell.folder: f"[{n}/{len(cells)}] {'/'.join(cell.folder.parts[-2:])}"
            for n, cell in enumerate(cells, 1)
        }
        # Each cell with its earliest start time.
        self._todo = [(0.0, cell) for cell in cells if not cell.finished]
        self._running = 0
        self._deaths: Counter[Path] = Counter()

    def run(self) -> Counter[str]:
        """Run all cells; returns the number in each final state."""
        try:
            with Display() as display:
                self._work(display)
                self._todo = [(0.0, cell) for cell in self._given_up_by_others()]
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
            # A dead owner on this machine is detected immediately; on another, its lease must expire.
            wait = lease.SECONDS if lease.owner(cell.folder) else 0.0
            self._todo.append((time.monotonic() + wait, cell))
            text = f"{outcome.note.removesuffix('.')}; it will be resumed"
        else:
            if outcome.state == "died":
                outcome = record_failure(cell, outcome.note)
            self.outcomes[cell.folder] = outcome
            text = result_line(outcome)
        display.end(cell.folder, f"{self._names[cell.folder]}: {text}")

    def _given_up_by_others(self) -> list[Cell]:
        """Unfinished cells that other processes have stopped running."""
        theirs = [o.cell for o in self.outcomes.values() if o.state == "elsewhere"]
        return [cell for cell in theirs if not cell.finished and not lease.owner(cell.folder)]


def result_line(outcome: Outcome) -> str:
    """The message about a cell that has ended."""
    if outcome.state == "finished":
        run = Progress(outcome.cell.folder)
        done = f"{run.images:,} images in {duration(run.seconds)}"
        return f"accuracy {percent(run.accuracy)}, {done}"
    if outcome.state == "elsewhere":
        return f"already running in {outcome.note}"
    return f"{outcome.state}: {outcome.note}"
