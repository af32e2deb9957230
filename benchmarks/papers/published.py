"""The published numbers of the papers, from PAPER/published.json."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from ...files import read_json
from ...run_folder import CELL
from ..results.groups import groups
from ..results.runs import Run, grouped
from ..suites.cell import Cell

Published = dict[tuple[str, str], dict[str, Any]]  # {(panel, curve): {x: number or [mean, sd]}}


@cache
def tables(paper: str) -> dict[str, Any]:
    """All tables of a paper; {} if it has none."""
    file = Path(__file__).parent / paper / "published.json"
    return json.loads(file.read_text()) if file.exists() else {}


def table(paper: str, name: str) -> dict[str, dict[str, Any]]:
    """The rows of a table as in the file."""
    return tables(paper)[name]["rows"]


def printed(paper: str, name: str) -> Published:
    """The rows of a table; the name of a nested table is the panel of its rows."""
    found: Published = {}
    for row, cells in table(paper, name).items():
        nested = all(isinstance(value, dict) for value in cells.values())
        found |= {(row, key): v for key, v in cells.items()} if nested else {("", row): cells}
    return found


def text(value: float | list[float] | None) -> str:
    """A published number as text, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value[0]:.2f} ± {value[1]:.2f}" if isinstance(value, list) else f"{value:.2f}"


def beside(runs: list[Run], theirs: list[Cell]) -> list[str]:
    """The differences of runs from a paper's cells; [] if their numbers are comparable.

    They are comparable if all settings are equal and all runs exist and are finished.
    """
    from .comparison import differences, of_training  # deferred: imports torch

    cells = [cell_of(run) for run in runs]
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        return ["some runs are of no suite"]
    if unfinished := [run for run in runs if not run.finished]:
        return [f"{len(unfinished)} runs are not finished"]
    return [*map(str, differences(known, theirs)), *of_training(runs)]


def cell_of(run: Run) -> Cell | None:
    """The cell of a suite that this run belongs to; None for a run without a suite."""
    facts = read_json(run.folder / CELL)
    if not {"data", "model"} <= facts.get("config", {}).keys():
        return None
    return Cell(facts["names"], run.folder, facts["config"], facts.get("factors", {}))


def published_beside(everything: list[Run]) -> dict[tuple[str, str], str]:
    """Published numbers for the same runs, by setting and method."""
    from .experiment import experiments

    found: dict[tuple[str, str], str] = {}
    known = {(group.setting, group.label): group.runs for group in groups(everything)}
    for own in (a for a in experiments().values() if a.published and "full" in a.suites):
        rows = table(own.paper, own.published)
        wanted = {
            pair: runs
            for pair, runs in known.items()
            if runs and isinstance(rows.get(pair[1], {}).get(pair[0]), float | list)
        }
        if not wanted:
            continue
        theirs = grouped(own.cells("full"), lambda c: (c.names["setting"], c.label))
        for pair, runs in wanted.items():
            if pair in theirs and not beside(runs, theirs[pair]):
                found.setdefault(pair, f"{text(rows[pair[1]][pair[0]])} ({own.name})")
    return found
