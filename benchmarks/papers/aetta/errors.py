"""AETTA's error compared with every other estimator's (Tables 1, 2), and their bias (Figure 4)."""

from ...results.runs import Run, grouped
from ..primitives import Part, below
from ..table import Table
from ..tables import points, with_average


def least(table: Table, name: str = "AETTA", x: str = "Avg") -> list[Part]:
    """Claim: an estimator has the smallest error on every dataset."""
    return [
        part
        for panel in table.panels
        if name in table.curves(panel)
        for other in table.curves(panel)
        if other != name
        for part in below(table, name, other, panel=panel, x=x)
    ]


def too_high(runs: list[Run]) -> Table:
    """The bias of the estimates by method, averaged over corruptions."""
    found = Table(unit="estimate less accuracy, points")
    methods = grouped([run for run in runs if run.adapts], lambda run: run.label)
    accuracies = {method: points(same, "accuracy") for method, same in methods.items()}
    for name in dict.fromkeys(name for run in runs if run.adapts for name in run.estimators):
        cells = {
            method: {s: e - accuracies[method][s] for s, e in points(same, name).items()}
            for method, same in methods.items()
        }
        with_average(found, "", name, cells)
    return found
