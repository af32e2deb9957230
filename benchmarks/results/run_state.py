"""The state and progress of runs in a folder, even while they are being written."""

import re
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...files import read_json, unreadable
from ...run_folder import CELL, LOCK, PROVENANCE, ROWS, SUMMARY, error_of, owner, rows_in
from .run_statistics import mean
from .text_table import duration, percent

STATES = ("finished", "running", "cut", "failed", "waiting")
ACCURACY = re.compile(rb'"accuracy": ([\d.e+-]+)')
FRESH = 60  # seconds since the last row of a run that still goes on
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
    who, error, rows = owner(folder), error_of(folder), folder / ROWS
    if who:
        return State("running", who)
    if error is not None:
        return State("failed", error)
    if not rows.exists():
        return State("waiting")
    written = time.time() - rows.stat().st_mtime
    if not (folder / LOCK).exists() and written < FRESH:
        return State("running", "a Trainer")  # it writes rows but holds no lock
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
    """How far a run is, from its record.

    images, seconds: of the last row; 0 without rows. accuracy: the mean over batches with labels, None if
    there are none. speed: images per second over the last RECENT batches. length: images of the whole run.
    """

    def __init__(self, folder: Path) -> None:
        try:
            record = (folder / ROWS).read_bytes()
        except OSError:
            record = b""
        record = record[: record.rfind(b"\n") + 1]
        accuracies = ACCURACY.findall(record)
        newest = rows_in(b"".join(record.splitlines(keepends=True)[-RECENT:]))
        steps = [(0, 0.0), *((row["images"], row["seconds"]) for row in newest)][-RECENT:]
        self.images, self.seconds = steps[-1]
        self.accuracy = mean(np.array(accuracies, dtype=float))
        self.speed = (self.images - steps[0][0]) / max(self.seconds - steps[0][1], 1e-9)
        self.length: int | None = read_json(folder / PROVENANCE).get("images")

    def texts(self) -> tuple[str, str, str, str]:
        """Accuracy, images, speed and remaining time as printed text."""
        if not self.images:
            return ("", "starting", "", "")
        of = f"/{self.length:,}" if self.length else ""
        left = duration((self.length - self.images) / self.speed) if self.length else "?"
        images = f"{self.images:,}{of} images"
        return (percent(self.accuracy), images, f"{self.speed:,.0f}/s", f"{left} left")
