"""The numbers that papers print, as they were read from them: PAPER/published.json."""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def table(paper: str, name: str) -> dict[str, dict[str, Any]]:
    """The rows of a table of a paper: {row: {column: number, or mean and standard deviation}}."""
    file = Path(__file__).parent / paper / "published.json"
    return json.loads(file.read_text())[name]["rows"]


def printed(paper: str, name: str) -> dict[str, dict[str, Any]]:
    """The same; where a row is a table itself (a data set by estimator), its rows are "data set: row"."""
    found: dict[str, dict[str, Any]] = {}
    for row, cells in table(paper, name).items():
        nested = all(isinstance(value, dict) for value in cells.values())
        found |= {f"{row}: {key}": v for key, v in cells.items()} if nested else {row: cells}
    return found


def text(value: float | list[float] | None) -> str:
    """A published number as it is printed, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value[0]:.2f} ± {value[1]:.2f}" if isinstance(value, list) else f"{value:.2f}"


def contains(whole: Any, part: Any) -> bool:
    """Whether nested mappings have all values of another one."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    return whole == part
