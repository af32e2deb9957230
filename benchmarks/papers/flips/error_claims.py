"""Claims about errors on whole data sets; loads no torch, so that judging is fast."""

import numpy as np

from ...results.run_statistics import (
    Difference,
    Values,
    above_zero,
    paired,
    share_of_runs,
    unpaired,
)
from ..primitives import INF, Names, Part, listed, means
from ..table import Table

FITTED, OTHERS = "fitted", "others"  # panels of Figure 3.6
OURS = "WF"
SETS = "data sets"  # what is counted


def less(table: Table, part: str, x: str, than: str, by: float = 0) -> list[Part]:
    """In one part of the streams one column has less error than another, by a margin."""
    found = table.difference(("", part), ("", part), [than], [x])
    return [Part(f"{than} - {x}", found, by, of="streams")]


def apart(table: Table, part: str, other: str) -> list[Part]:
    """The mean error of one part of the streams is above that of another part."""
    first, second = (table.values("", name, OURS) for name in (part, other))
    return [Part(f"{part} - {other}", unpaired(first, second), 0, of="streams")]


def error_below(table: Table, limit: float) -> list[Part]:
    """The mean error of the estimates of the other streams is below a limit, with every network."""
    parts = []
    for panel in (name for name in table.panels if name != FITTED):
        gaps: Values[str] = {}
        for curve in table.curves(panel):
            truth = table.values(panel, curve, "accuracy")
            for run, estimate in table.values(panel, curve, "estimate").items():
                gaps[run] = abs(estimate - truth[run])
        parts.append(Part(panel, above_zero(gaps), most=limit, of="streams"))
    return parts


def mean_of(table: Table, x: str, least: float = -INF, most: float = INF) -> list[Part]:
    """The mean of a column over the streams is within limits, with every network."""
    return [
        Part(curve, above_zero(table.values("", curve, x)), least, most, of="streams")
        for curve in table.curves()
    ]


def sizes_ahead(table: Table, than: Names) -> list[Part]:
    """The share of sizes at which weighted flips have less error than another estimator, above half."""
    parts = []
    for other in listed(than):
        means = [[table.mean("", name, x) for name in (other, "WF")] for x in table.xs]
        ahead = [(theirs or 0) > (ours or 0) for theirs, ours in means]
        found = Difference(float(np.mean(ahead)), None, None, 1) if ahead else None
        parts.append(Part(f"{other} behind", found, 0.5))
    return parts


def less_by(table: Table, x: str, than: Names, share: float) -> list[Part]:
    """Over the data sets, one column's error is smaller than others' by a share of theirs."""
    own = means(table, x)
    return [
        Part(
            f"{1 - share:g} x {other} - {x}",
            paired(scaled(means(table, other), 1 - share), own),
            0,
            of=SETS,
        )
        for other in listed(than)
    ]


def earlier_less_by(table: Table, share: float, panel: str = "error") -> list[Part]:
    """Over the data sets, the error at half of the steps is smaller than at the last step, by a share of
    it.
    """
    parts = []
    for curve in table.curves(panel):
        middle, last = (
            table.by_run(panel, curve, table.chosen(x, panel, curve)) for x in ("middle", "last")
        )
        found = paired(scaled(last, 1 - share), middle)
        parts.append(Part(f"{curve}, {1 - share:g} x last - middle", found, 0, of=SETS))
    return parts


def top_two(table: Table, x: str) -> list[Part]:
    """The share of data sets on which at most one column has less error, above half."""
    columns = {other: means(table, other) for other in table.xs}
    second = {
        name: 1.5 - sum(own.get(name, np.inf) < value for own in columns.values())
        for name, value in columns[x].items()
    }
    found = share_of_runs({name: [value] for name, value in second.items()})
    return [Part(f"share with {x} among two", found, 0.5, of=SETS)]


def scaled(values: Values[str], factor: float) -> Values[str]:
    return {name: factor * value for name, value in values.items()}
