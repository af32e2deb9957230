"""Estimates with bands beside the true accuracy, on independent and on correlated labels."""

from ...results.estimate_quality import WINDOW, of_batches, of_runs
from ...results.runs import Run
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
                if (value := getattr(own, field)) == value:  # a number
                    found.add(panel, name, x, f"seed {run.seed}", scale * value)
    return found
