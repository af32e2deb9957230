"""Small tables that people write: a CSV with named columns, every cell of them filled or empty text."""

import csv
from collections.abc import Sequence
from pathlib import Path

from .. import HoldfastError
from ..files import reason


def read_table(path: Path, columns: Sequence[str], what: str) -> list[dict[str, str]]:
    """The rows of a CSV, each with at least `columns`; `what` names them in the message.

    Raises:
        HoldfastError: if the file cannot be read, has no row, or a row lacks a column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        problem = reason(error)
    else:
        problem = "it has no rows" if not rows else ""
        for number, row in enumerate(rows, start=2):
            if missing := [c for c in columns if not isinstance(row.get(c), str)]:
                problem = problem or f"row {number} lacks {', '.join(missing)}"
    if problem:
        raise HoldfastError(
            f"{path} cannot be read as {what} ({problem}). Pass a CSV with the columns "
            f"{', '.join(columns)}."
        )
    return rows
