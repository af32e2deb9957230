"""Claims about errors on whole datasets; does not import torch, so that judging is fast."""

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
SETS = "data sets"  # the unit of the counts


def less(table: Table, part: str, x: str, than: str, by: float = 0) -> list[Part]:
    """Claim: on one part of the streams, a column has a smaller error than another, by a margin."""
    found = table.difference(("", part), ("", part), [than], [x])
    return [Part(f"{than} - {x}", found, by, of="streams")]


def apart(table: Table, part: str, other: str) -> list[Part]:
    """Claim: the mean error on one part of the streams is above that on another part."""
    first, second = (table.values("", name, OURS) for name in (part, other))
    return [Part(f"{part} - {other}", unpaired(first, second), 0, of="streams")]


def error_below(table: Table, limit: float) -> list[Part]:
    """Claim: the mean error on the streams outside the fit is below a limit, for every network."""
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
    """Claim: the mean of a column over the streams is within limits, for every network."""
    return [
        Part(curve, above_zero(table.values("", curve, x)), least, most, of="streams")
        for curve in table.curves()
    ]


def sizes_ahead(table: Table, than: Names) -> list[Part]:
    """Claim: weighted flips have a smaller error than another estimator at more than half the sizes."""
    parts = []
    for other in listed(than):
        means = [[table.mean("", name, x) for name in (other, "WF")] for x in table.xs]
        ahead = [(theirs or 0) > (ours or 0) for theirs, ours in means]
        found = Difference(float(np.mean(ahead)), None, None, 1) if ahead else None
        parts.append(Part(f"{other} behind", found, 0.5))
    return parts


def less_by(table: Table, x: str, than: Names, share: float) -> list[Part]:
    """Claim: averaged over the datasets, a column's error is smaller than the others' by at least a
    share of them."""
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
    """Claim: averaged over the datasets, the error at half of the steps is below the final one by at
    least a share of it."""
    parts = []
    for curve in table.curves(panel):
        middle, last = (
            table.by_run(panel, curve, table.chosen(x, panel, curve)) for x in ("middle", "last")
        )
        found = paired(scaled(last, 1 - share), middle)
        parts.append(Part(f"{curve}, {1 - share:g} x last - middle", found, 0, of=SETS))
    return parts


def top_two(table: Table, x: str) -> list[Part]:
    """Claim: on more than half the datasets, at most one column has a smaller error."""
    columns = {other: means(table, other) for other in table.xs}
    second = {
        name: 1.5 - sum(own.get(name, np.inf) < value for own in columns.values())
        for name, value in columns[x].items()
    }
    found = share_of_runs({name: [value] for name, value in second.items()})
    return [Part(f"share with {x} among two", found, 0.5, of=SETS)]


def scaled(values: Values[str], factor: float) -> Values[str]:
    return {name: factor * value for name, value in values.items()}
