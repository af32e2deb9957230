"""The state and progress of runs in a folder, even while they are being written."""

import os
import re
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from ... import HoldfastError, lease
from ...files import read_json, unreadable
from ...run_folder import CELL, PROVENANCE, ROWS, SUMMARY, error_of, rows_in
from .text_table import duration, percent

STATES = ("finished", "running", "cut", "failed", "waiting")
ACCURACY = re.compile(rb'"accuracy": ([\d.e+-]+)')
RECENT = 100  # number of batches over which the speed is measured


class State(NamedTuple):
    """One of STATES, and the owner of the run or the error."""

    name: str
    note: str = ""


def fault(folder: Path) -> str | None:
    """Why the small files of a run cannot be read; None if they can."""
    try:
        facts = [read_json(folder / name) for name in (CELL, SUMMARY, PROVENANCE)]
        if (folder / ROWS).exists() and not facts[-1]:
            raise unreadable(folder / PROVENANCE, "it is missing")
    except HoldfastError as error:
        return str(error)
    return None


def state(folder: Path) -> State:
    """The state of a run."""
    if wrong := fault(folder):
        return State("failed", wrong)
    if (folder / SUMMARY).exists():
        return State("finished")
    owner, error, rows = lease.owner(folder), error_of(folder), folder / ROWS
    if owner:
        return State("running", owner)
    if error is not None:
        return State("failed", error)
    if not rows.exists():
        return State("waiting")
    written = time.time() - rows.stat().st_mtime
    if not (folder / lease.OWNERS).exists() and written < lease.SECONDS:
        return State("running", "a Trainer")  # it writes rows but has no lease
    return State("cut", "rerun the same command to resume")


def folders(folder: Path) -> list[Path]:
    """The folders of all runs below a folder, started or not.

    Raises:
        HoldfastError: if the folder does not exist.
    """
    if not folder.is_dir():
        raise HoldfastError(f"{folder} is not a folder. Pass the folder of a run or of a suite.")
    return sorted({path.parent for name in (CELL, ROWS) for path in folder.rglob(name)})


class Progress:
    """The progress of a run, read from the end of its record; `update` reads new rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = 0
        self._restart()

    def _restart(self) -> None:
        self._offset, self._scored, self._sum = 0, 0, 0.0
        self._recent: deque[tuple[int, float]] = deque([(0, 0.0)], RECENT)
        self.length: int | None = read_json(self.folder / PROVENANCE).get("images")

    def update(self) -> "Progress":
        try:
            file = open(self.folder / ROWS, "rb")  # noqa: SIM115
        except OSError:
            return self
        with file:
            facts = os.fstat(file.fileno())
            if facts.st_ino != self._file or facts.st_size < self._offset:  # restarted or resumed
                self._restart()
                self._file = facts.st_ino
            file.seek(self._offset)
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]
        self._offset += len(new)
        accuracies = ACCURACY.findall(new)
        self._sum += sum(map(float, accuracies))
        self._scored += len(accuracies)
        newest = rows_in(b"".join(new.splitlines(keepends=True)[-RECENT:]))
        self._recent.extend((row["images"], row["seconds"]) for row in newest)
        return self

    @property
    def images(self) -> int:
        return self._recent[-1][0]

    @property
    def accuracy(self) -> float | None:
        """The mean over batches with labels; None if there are none."""
        return self._sum / self._scored if self._scored else None

    @property
    def seconds(self) -> float:
        """The elapsed time according to the record."""
        return self._recent[-1][1]

    @property
    def speed(self) -> float:
        """Images per second over the last RECENT batches."""
        (images, seconds), (images_now, now) = self._recent[0], self._recent[-1]
        return (images_now - images) / max(now - seconds, 1e-9)

    def texts(self) -> tuple[str, str, str, str]:
        """Accuracy, images, speed and remaining time as printed text."""
        if not self.images:
            return ("", "starting", "", "")
        of = f"/{self.length:,}" if self.length else ""
        left = duration((self.length - self.images) / self.speed) if self.length else "?"
        images = f"{self.images:,}{of} images"
        return (percent(self.accuracy), images, f"{self.speed:,.0f}/s", f"{left} left")
