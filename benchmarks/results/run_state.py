"""The state of runs in a folder, even while they are being written."""

import time
from pathlib import Path
from typing import NamedTuple

from ... import HoldfastError
from ...files import read_json, unreadable
from ...run_folder import CELL, LOCK, PROVENANCE, ROWS, SUMMARY, error_of, last_images, owner

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


def fault(folder: Path) -> str | None:
    """Why the small files of a run cannot be read; None if they can."""
    try:
        facts = [read_json(folder / name) for name in (CELL, SUMMARY, PROVENANCE)]
        if (folder / ROWS).exists() and not facts[-1]:
            raise unreadable(folder / PROVENANCE, "it is missing")
        # As in a copy of a running folder to which the summary was added later.
        if (end := facts[1].get("images")) and end != last_images(folder):
            raise unreadable(folder / ROWS, f"it ends before image {end:,}, the last of the run")
    except HoldfastError as error:
        return str(error)
    return None


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
    written = time.time() - rows.stat().st_mtime
    if not (folder / LOCK).exists() and written < _FRESH:
        return State("running", "a Trainer")  # it writes rows but holds no lock
    return State("cut", "rerun the same command to resume")
