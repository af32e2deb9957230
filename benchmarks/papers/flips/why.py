"""Why flips err where they do: the reach of f's fit, saturated flips, their weights, or f's form."""

from collections.abc import Callable

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ...results.flip_points import Point, fit_points
from ...results.runs import Run
from ...results.statistics import Difference, Values, unpaired
from ..artefact import Artefact
from ..table import Claim, Table
from .families import METHODS, SUITES, errors, fitted, parted

OURS, BEST, EVEN, DOC = "WF", "WF, f of these very streams", "flips without weights", "DoC"
WITHIN, BEYOND = "flips within the hold-out's", "flips beyond them"
FEW, MANY = "the half with fewer flips", "the half with more flips"
ALL = "all"


def table(runs: list[Run]) -> Table:
    """Absolute errors of each stream, by where its flips lie."""
    held, rest = parted(runs)
    f = fitted(held)
    found = Table([OURS, BEST, EVEN, DOC], {}, "mean absolute error, points")
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
            for place in places:
                if place in known_errors:
                    found.add(row, name, place, known_errors[place])
        found.notes.append(f"{row}: {spread(own)}")
    return found


def pooled(points: list[Point], f: FlipFunction, estimate: str) -> Values[str]:
    """The errors of an estimate, of all data sets together."""
    cells = errors(points, f).values()
    return {place: error for own in cells for place, error in own.get(estimate, {}).items()}


def spread(points: list[Point]) -> str:
    """How many, and what a flip says there."""
    if len(points) < 3:
        return f"{len(points)} streams."
    flips, truth = np.array([(p.flips[True], 100 * p.accuracy) for p in points]).T
    text = f"{len(points)} streams, {flips.min():.0f} to {flips.max():.0f} flips of 1,000"
    if not np.ptp(flips):
        return f"{text}."
    slope = np.cov(flips, truth)[0, 1] / flips.var(ddof=1)
    return f"{text}; ten more flips go with {10 * slope:+.2f} points of accuracy."


def apart(t: Table, row: str, other: str) -> Difference | None:
    """By how much the mean error of one part of the streams is above that of another part."""
    first, second = (t.rows.get(part, {}).get(OURS, {}) for part in (row, other))
    return unpaired(first, second)


ARTEFACT = Artefact(
    name="flips/Why",
    shows="where weighted flips err: beyond the flips that f was fitted to, among many flips, or anywhere",
    suites=SUITES,
    of_runs=table,
    claims=(
        Claim("weighted flips have less error than DoC", lambda t: [t.step(ALL, DOC, OURS)]),
        Claim("but more where there are few flips", lambda t: [t.step(FEW, OURS, DOC)]),
        Claim(
            "it is f's form: the parabola through these streams is better by two points at most",
            lambda t: [t.fall(ALL, BEST, OURS, by=-2)],
        ),
        Claim(
            "it is saturation: the error is larger where there are more flips",
            lambda t: [apart(t, MANY, FEW)],
        ),
        Claim(
            "it is the weights: flips without them have less error",
            lambda t: [t.step(ALL, OURS, EVEN)],
        ),
    ),
    only={"method": METHODS},
    remark="Made from the runs of Table 3.1. The parabola through the streams that it is judged by is no "
    "estimate: it says how much any f of that form leaves.",
)
