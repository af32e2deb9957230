"""Estimates with bands beside the true accuracy, on independent and on correlated labels."""

import math
from pathlib import Path

from ...results.estimate_quality import WINDOW, of_batches, of_runs
from ...results.pictures import COLOURS, pyplot, saved
from ...results.runs import Run
from ...suites.cell import Cell
from ..table import Table

PANELS = {
    "R²": ("r2", 1),
    "Spearman's rho": ("rho", 1),
    "mean absolute error, points": ("error", 100),
    "coverage, %": ("coverage", 100),
    "width, points": ("width", 100),
}


def table(runs: list[Run]) -> Table:
    """Each estimator's numbers, as `holdfast estimators quality` has them, by method and labels."""
    found = Table(unit="see the panels")
    for run in runs:
        x = f"{run.method}, {run.setting.lower()}"
        for name in of_batches(run):
            own = of_runs([run], name, WINDOW)
            for panel, (field, scale) in PANELS.items():
                if not math.isnan(value := getattr(own, field)):
                    found.add(panel, name, x, f"seed {run.seed}", scale * value)
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Coverage against error, means over the runs: a panel for each method and kind of labels."""
    plt = pyplot()
    coverage, error = "coverage, %", "mean absolute error, points"
    curves = found.curves(coverage)
    columns = found.xs
    figure, axes = plt.subplots(
        2, -(-len(columns) // 2), figsize=(9, 5.2), layout="constrained",
        squeeze=False, sharex=True, sharey=True,
    )  # fmt: skip
    for ax, x in zip(axes.flat, columns, strict=False):
        for name, colour in zip(curves, COLOURS, strict=True):
            place = [found.mean(panel, name, x) for panel in (error, coverage)]
            label = name if ax is axes.flat[0] else None
            ax.plot(*place, "o", color=colour, label=label)
        ax.axhline(95, color="0.7", lw=1, ls="--")
        ax.set_title(x, fontsize=9, loc="left")
        ax.grid(color="0.93")
    figure.supxlabel(error, fontsize=9)
    figure.supylabel("batches whose accuracy the band contains, %", fontsize=9)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return saved(figure, path)
