"""The state of runs in a folder, even while they are being written."""

import time
from pathlib import Path
from typing import NamedTuple

from ... import HoldfastError
from ...run_folder import CELL, LOCK, ROWS, SUMMARY, error_of, owner
from .run_files import fault

STATES = ("finished", "running", "cut", "failed", "waiting")
_FRESH = 60  # seconds since the last row of a run that still goes on


class State(NamedTuple):
    """One of STATES, and the owner of the run or the error."""

    name: str
    note: str = ""


def folders(folder: Path) -> list[Path]:
    """The folders of all runs below a folder, started or not.

    Raises HoldfastError if the folder does not exist.
    """
    if not folder.is_dir():
        raise HoldfastError(f"{folder} is not a folder. Pass the folder of a run or of a suite.")
    return sorted({path.parent for name in (CELL, ROWS) for path in folder.rglob(name)})


def state(folder: Path) -> State:
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
    written = abs(time.time() - rows.stat().st_mtime)  # a clock may have been set back
    if not (folder / LOCK).exists() and written < _FRESH:
        return State("running", "a Trainer")  # it writes rows but holds no lock
    return State("cut", "rerun the same command to resume")
