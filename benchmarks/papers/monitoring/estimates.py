"""Estimates with bands compared with the true accuracy, on independent and on correlated labels."""

import math
from pathlib import Path

from ....drawing import describe, panels, saved
from ...results.estimate_quality import WINDOW, of_batches, of_runs
from ...results.palette import COLOURS
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
    """The measures of `holdfast estimators quality` for each estimator, by method and order of labels."""
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
    """Draw mean coverage against mean error over runs; one panel per method and order of labels."""
    coverage, error = "coverage, %", "mean absolute error, points"
    curves = found.curves(coverage)
    columns = found.xs
    half = -(-len(columns) // 2)
    figure, axes = panels(len(columns), half, size=(9, 5.2), sharex=True, sharey=True)
    for ax, x in zip(axes, columns, strict=True):
        for name, colour in zip(curves, COLOURS, strict=True):
            place = [found.mean(panel, name, x) for panel in (error, coverage)]
            label = name if ax is axes[0] else None
            ax.plot(*place, "o", color=colour, label=label)
        ax.axhline(95, color="0.7", lw=1, ls="--")
        describe(ax, str(x))
    figure.supxlabel(error, fontsize=9)
    figure.supylabel("batches whose accuracy the band contains, %", fontsize=9)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return saved(figure, path)
