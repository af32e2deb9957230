"""The published numbers of the papers, from PAPER/published.json, and runs that they may stand beside."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from ...files import read_json
from ...run_folder import CELL
from ..results.groups import groups
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from .experiment import EXPERIMENTS, FULL, HERE

Published = dict[tuple[str, str], dict[str, Any]]  # {(panel, curve): {x: number or [mean, sd]}}


@cache
def tables(paper: str) -> dict[str, Any]:
    """All tables of a paper; {} if it has none."""
    file = HERE / paper / "published.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def printed(paper: str, name: str) -> Published:
    """The rows of a table; the name of a nested table is the panel of its rows."""
    found: Published = {}
    for row, cells in tables(paper)[name]["rows"].items():
        nested = all(isinstance(value, dict) for value in cells.values())
        found |= {(row, key): v for key, v in cells.items()} if nested else {("", row): cells}
    return found


def text_of(value: float | list[float] | None) -> str:
    """A published number as text, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value[0]:.2f} ± {value[1]:.2f}" if isinstance(value, list) else f"{value:.2f}"


def cell_of(run: Run) -> Cell | None:
    """The cell of a suite that this run belongs to; None for a run without a suite."""
    facts = read_json(run.folder / CELL)
    if not {"data", "model"} <= facts.get("config", {}).keys():
        return None
    return Cell(facts["names"], Path(run.folder), facts["config"], facts.get("factors", {}))


def published_beside(everything: list[Run]) -> dict[tuple[str, str], str]:
    """Published numbers for the same runs, by setting and method.

    They are of the same runs if all settings are equal and all runs exist and are finished.
    """
    from .comparison import differences, of_training  # deferred: imports torch

    found: dict[tuple[str, str], str] = {}
    known = {(group.setting, group.label): group.runs for group in groups(everything)}
    for own in (own for own in EXPERIMENTS.values() if own.published and FULL in own.suites):
        rows = printed(own.paper, own.published)
        numbers = {pair: rows.get(("", pair[1]), {}).get(pair[0]) for pair in known}
        wanted = [pair for pair, value in numbers.items() if isinstance(value, float | list)]
        theirs = grouped(own.cells(FULL) if wanted else [], lambda c: (c.names["setting"], c.label))
        for pair in (pair for pair in wanted if pair in theirs and known[pair]):
            runs = known[pair]
            cells = [cell for run in runs if run.finished and (cell := cell_of(run))]
            known_all = len(cells) == len(runs)
            if known_all and not differences(cells, theirs[pair]) and not of_training(runs):
                found.setdefault(pair, f"{text_of(numbers[pair])} ({own.name})")
    return found
