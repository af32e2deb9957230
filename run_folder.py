"""What lies in the folder of a run, and how to read it, also while it is being written."""

import json
import math
from pathlib import Path
from typing import Any

from . import HoldfastError
from .files import read_json, reason, unreadable

ROWS, PROVENANCE, SUMMARY = "record.jsonl", "provenance.json", "summary.json"  # of every run
FLIPS, OUTPUTS = "flips.npz", "outputs.npz"  # predicted classes: WeightedFlips', DatasetEstimates'
CELL, ERROR = "cell.json", "error.txt"  # of a suite's runs: what is to be run; why it failed


def damage(folder: Path) -> str | None:
    """Why not all files of a run can be read, in a sentence; None if they can."""
    rows = folder / ROWS
    try:
        facts = [read_json(folder / name) for name in (CELL, SUMMARY, PROVENANCE)]
        if rows.exists():
            rows.open("rb").close()
            if not facts[-1]:
                raise unreadable(folder / PROVENANCE, "it is missing")
    except HoldfastError as error:
        return str(error)
    except OSError as error:
        return str(unreadable(rows, reason(error)))
    return None


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, without what a kill or a power cut may have torn at the end."""
    return rows_in((folder / ROWS).read_bytes())


def begun(folder: Path) -> bool:
    """Whether the run has at least one whole row."""
    try:
        with (folder / ROWS).open("rb") as file:
            return bool(rows_in(file.readline()))
    except FileNotFoundError:
        return False


def rows_in(record: bytes) -> list[dict[str, Any]]:
    """The whole rows at the beginning of a part of a record."""
    rows = []
    for line in record.splitlines(keepends=True):
        try:
            row = json.loads(line[: line.index(b"\n")])
        except (ValueError, RecursionError):  # no end of line, or no JSON in it
            break
        if not is_row(row):
            break
        rows.append(row)
    return rows


def is_row(row: Any) -> bool:
    """Whether what a report needs of every row is there, as finite numbers."""
    if not isinstance(row, dict):
        return False
    needed = (row.get("images"), row.get("seconds"), row.get("reset", 0), row.get("accuracy", 0))
    return all(isinstance(value, int | float) and math.isfinite(value) for value in needed)


def error_of(folder: Path) -> str | None:
    """Why the run failed, in one line; None if it did not."""
    try:
        return (folder / ERROR).read_text(errors="replace").partition("\n")[0]
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(unreadable(folder / ERROR, reason(error)))
