"""Causes of errors of flips: the range of f's fit, saturated flips, their weights, or f's form."""

from collections.abc import Callable

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ...results.flip_points import Point, fit_points
from ...results.run_statistics import Values
from ...results.runs import Run
from ..table import Table
from .set_errors import UNIT, errors, fitted, parted

OURS, BEST, EVEN, DOC = "WF", "WF, f of these very streams", "flips without weights", "DoC"
WITHIN, BEYOND = "flips within the hold-out's", "flips beyond them"
FEW, MANY = "the half with fewer flips", "the half with more flips"
ALL = "all"


def table(runs: list[Run]) -> Table:
    """Absolute errors of each stream, by the range of its flips."""
    held, rest = parted(runs)
    f = fitted(held)
    found = Table(unit=UNIT)
    if f is None or not rest:
        return found
    best, even = fit_points(rest, 2, True), fit_points(held, 2, False)
    known = [point.flips[True] for point in held]
    middle = float(np.median([point.flips[True] for point in rest]))
    parts: dict[str, Callable[[float], bool]] = {
        ALL: lambda flips: True,
        WITHIN: lambda flips: min(known) <= flips <= max(known),
        BEYOND: lambda flips: not min(known) <= flips <= max(known),
        FEW: lambda flips: flips < middle,
        MANY: lambda flips: flips >= middle,
    }
    columns = {
        OURS: pooled(rest, f, "WF"),
        BEST: pooled(rest, best, "WF"),
        EVEN: pooled(rest, even, "WF"),
        DOC: pooled(rest, f, DOC),
    }
    for row, belongs in parts.items():
        own = [point for point in rest if belongs(point.flips[True])]
        places = [point.run.place for point in own]
        for name, known_errors in columns.items():
            cells = {place: known_errors[place] for place in places if place in known_errors}
            found.extend("", row, name, cells)
        found.notes.append(f"{row}: {spread(own)}")
    return found


def pooled(points: list[Point], f: FlipFunction, estimate: str) -> Values[str]:
    """The errors of an estimate over all datasets."""
    cells = errors(points, f, estimate).values()
    return {place: error for own in cells for place, error in own.items()}


def spread(points: list[Point]) -> str:
    """A sentence on the number of streams, the range of flips, and the slope of accuracy."""
    if len(points) < 3:
        return f"{len(points)} streams."
    flips, truth = np.array([(p.flips[True], 100 * p.accuracy) for p in points]).T
    text = f"{len(points)} streams, {flips.min():.0f} to {flips.max():.0f} flips of 1,000"
    if not np.ptp(flips):
        return f"{text}."
    slope = np.cov(flips, truth)[0, 1] / flips.var(ddof=1)
    return f"{text}; ten more flips go with {10 * slope:+.2f} points of accuracy."
