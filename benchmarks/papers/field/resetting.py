"""Accuracy and frequency of every reset scheme, by the order of labels."""

from dataclasses import replace
from pathlib import Path

from ...results.runs import Run
from ...suites.cell import Cell
from ..picture import draw
from ..table import Table


def table(runs: list[Run]) -> Table:
    """Accuracy in percent and resets per 1,000 batches by order of labels; two panels per method."""
    found = Table(unit="accuracy, %; resets per 1,000 batches", axis="labels")
    for run in runs:
        place = f"seed {run.seed}"  # pairs the orders of labels, which have the same images
        x = run.factor("labels")
        found.add(run.method, run.override, x, place, 100 * (run.accuracy or 0.0))
        if run.override not in ("none", "oracle"):
            rate = 1000 * run.resets / len(run.rows)
            found.add(f"{run.method}, resets", run.override, x, place, rate)
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw only the accuracies."""
    rows = [row for row in found.rows if not row.panel.endswith("resets")]
    return draw(replace(found, rows=rows, unit="accuracy, %"), path)
