"""What is claimed of errors of whole data sets; loads no torch, so that judging is fast."""

import numpy as np

from ...results.statistics import Difference, Values, above_zero, unpaired
from ..primitives import Names, Part, listed
from ..table import Table

FITTED, OTHERS = "fitted", "others"  # panels of Figure 3.6
OURS = "WF"


def half_way(table: Table) -> list[Part]:
    """The error at the stop in the middle is below that at the last one, over the data sets."""
    return [error_less(table, "half way", len(table.curves()) // 2, -1)]


def few_held(table: Table, limit: float) -> list[Part]:
    """The error with the fewest held images is at most `limit` above that with the most."""
    return [error_less(table, "most - fewest", -1, 0)._replace(least=-limit)]


def error_less(table: Table, name: str, curve: int, other: int) -> Part:
    """By how much the error of one curve is below another's, by position."""
    names = table.curves()
    one, two = (("", names[n]) for n in (other, curve)) if names else (("", ""), ("", ""))
    return Part(name, table.difference(one, two, ["error"]), 0, of="data sets")


def less(table: Table, part: str, x: str, than: str, by: float = 0) -> list[Part]:
    """In one part of the streams one column has less error than another, by a margin."""
    found = table.difference(("", part), ("", part), [than], [x])
    return [Part(f"{than} - {x}", found, by, of="streams")]


def apart(table: Table, part: str, other: str) -> list[Part]:
    """The mean error of one part of the streams is above that of another part."""
    first, second = (table.values("", name, OURS) for name in (part, other))
    return [Part(f"{part} - {other}", unpaired(first, second), 0, of="streams")]


def error_below(table: Table, limit: float) -> list[Part]:
    """The mean error of the estimates of the other streams is below a limit."""
    gaps: Values[str] = {}
    for curve in table.curves(OTHERS):
        truth = table.values(OTHERS, curve, "accuracy")
        for run, estimate in table.values(OTHERS, curve, "estimate").items():
            gaps[run] = abs(estimate - truth[run])
    return [Part("error", above_zero(gaps), most=limit, of="streams")]


def sizes_ahead(table: Table, than: Names) -> list[Part]:
    """The share of sizes at which weighted flips have less error than another estimator, above half."""
    parts = []
    for other in listed(than):
        means = [[table.mean("", name, x) for name in (other, "WF")] for x in table.xs]
        ahead = [(theirs or 0) > (ours or 0) for theirs, ours in means]
        found = Difference(float(np.mean(ahead)), None, None, 1) if ahead else None
        parts.append(Part(f"{other} behind", found, 0.5))
    return parts
