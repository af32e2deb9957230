"""The primitives of claims, which compare numbers of a table.

A primitive yields the parts of a claim, all of which must hold. `curve` and `than` are names of curves,
`panel` of panels (default: all), each a name, a list, a slice, or a function of all names; there is one
part per combination. Each run is averaged over `x` before runs are compared; with `each`, every x is a
part.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from ..results.run_statistics import (
    Difference,
    Values,
    above_zero,
    paired,
    rank_correlated,
    share_of_runs,
)
from .table import FIRST, LAST, Selector, Table, X, selected, written

INF = float("inf")
Names = str | slice | Callable[[list[str]], list[str]] | Iterable[str] | None


class Part(NamedTuple):
    """A number that must be above `least` and below `most`; `of` names what is counted."""

    name: str
    found: Difference | None  # None: runs are missing
    least: float = -INF
    most: float = INF
    of: str = "runs"


Parts = Iterable[Part]
Check = Callable[[Table], Parts]


def above(
    t: Table,
    curve: Names,
    than: Names,
    panel: Names = None,
    x: Selector = None,
    each: Selector = None,
    by: float = 0,
    than_panel: str | None = None,
    than_x: X | None = None,
    share: float = 1,
) -> Iterator[Part]:
    """Curves lie above others, or a share of them (in `than_panel` or at `than_x`), by a margin."""
    groups = [("", t.chosen(x))] if each is None else [(written(x), [x]) for x in t.chosen(each)]
    for place, one in curves(t, panel, curve):
        beside = place if than_panel is None else than_panel
        for other, (name, xs) in product(selected(than, t.curves(beside)), groups):
            if than_x is None:
                found = t.difference((place, one), (beside, other), xs, share)
            else:
                name, theirs = written(than_x), t.values(beside, other, than_x)
                part = {run: share * value for run, value in theirs.items()}
                found = t.gap(t.by_run(place, one, xs), part)
            other = "0" if share == 0 else other if share == 1 else f"{share:g} x {other}"
            yield Part(words(place, f"{one} - {other}", name), found, by)


def below(
    t: Table,
    curve: Names,
    than: Names,
    panel: Any = None,
    than_panel: str | None = None,
    **rest: Any,
) -> Parts:
    """Curves, such as errors, lie below others (in `than_panel`, if given), by a margin."""
    if than_panel is None:
        return above(t, than, curve, panel, **rest)
    return above(t, than, curve, than_panel, than_panel=panel, **rest)


def rises(
    t: Table,
    curve: Names = None,
    panel: Names = None,
    start: Selector = FIRST,
    to: Selector = LAST,
    by: float = 0,
) -> Iterator[Part]:
    """Curves rise from each x in `start` to each x in `to`, by a margin."""
    for place, one in curves(t, panel, curve):
        for first, last in product(*(t.chosen(s, place, one) for s in (start, to))):
            found = t.gap(t.values(place, one, last), t.values(place, one, first))
            yield Part(words(place, one, f"{written(last)} - {written(first)}"), found, by)


def falls(
    t: Table,
    curve: Names = None,
    panel: Names = None,
    start: Selector = FIRST,
    to: Selector = LAST,
    **rest: Any,
) -> Iterator[Part]:
    """Curves fall from each x in `start` to each x in `to`, by a margin."""
    return rises(t, curve, panel, to, start, **rest)


def falls_along(
    t: Table, curve: Names = None, panel: Names = None, x: Selector = None
) -> Iterator[Part]:
    """Curves fall from each x to the next."""
    for place, one in curves(t, panel, curve):
        for a, b in pairwise(t.chosen(x, place, one)):
            yield from falls(t, one, place, start=a, to=b)


def near(
    t: Table,
    curve: Names = None,
    than: str | None = None,
    panel: Names = None,
    x: Selector = None,
    to: Selector = None,
    *,
    within: float,
) -> Iterator[Part]:
    """Curves differ by less than a margin from another one at each x, or from their own at `to`.

    Without either, they do so between any two x.
    """
    for place, one in curves(t, panel, curve):
        own = t.chosen(x, place, one)
        pairs: Iterable[tuple[X, X]] = ((at, at) for at in own)
        if to is not None:
            pairs = product(own, t.chosen(to, place, one))
        elif than is None:
            pairs = combinations(own, 2)
        for at, end in pairs:
            if end == at and than is None:
                continue
            found = t.gap(t.values(place, one, at), t.values(place, than or one, end))
            name = words(place, one, f"{written(at)} - {than or written(end)}")
            yield Part(name, found, -within, within)


def bounded(
    t: Table,
    curve: Names = None,
    panel: Names = None,
    x: Selector = None,
    least: float = -INF,
    most: float = INF,
) -> Iterator[Part]:
    """The numbers of curves at each x are within limits; parts are named by what is not a single name."""
    for place, one in curves(t, panel, curve):
        for at in t.chosen(x, place, one):
            places = ["" if isinstance(panel, str) else place, one]
            name = words(*places, "" if isinstance(x, str) else written(at))
            yield Part(name, t.gap(t.values(place, one, at)), least, most)


def positive(
    t: Table, curve: Names = None, panel: Names = None, x: Selector = LAST, sign: int = 1
) -> Iterator[Part]:
    """The numbers, which are differences, are above 0 (sign -1: below 0)."""
    for place, one in curves(t, panel, curve):
        values = t.by_run(place, one, t.chosen(x, place, one))
        found = above_zero({run: sign * value for run, value in values.items()})
        yield Part(words(place, one), found, 0)


def lower_mean(t: Table, x: X, than: Iterable[str], by_share: float = 0) -> Iterator[Part]:
    """Over the curves (datasets), averaged over runs, column x is lower than others, or by a share."""
    for other in than:
        theirs = {name: (1 - by_share) * mean for name, mean in means(t, other).items()}
        name = f"{1 - by_share:g} x {other}" if by_share else other
        yield Part(f"{name} - {x}", paired(theirs, means(t, x)), 0, of="data sets")


def mean_below(t: Table, limit: float, without: Sequence[X] = ()) -> Iterator[Part]:
    """The mean of each column over the curves (datasets) is below a limit."""
    for x in t.xs:
        if x not in without:
            yield Part(str(x), above_zero(means(t, x)), most=limit, of="data sets")


def rank_correlation(
    t: Table, one: str, other: str, panel: Names = None, sign: int = 1
) -> Iterator[Part]:
    """Spearman's correlation of two curves over the runs is positive (sign -1: negative)."""
    for place in panels(t, panel):
        found = rank_correlated(t.by_run(place, one), t.by_run(place, other))
        least, most = (0.0, INF) if sign > 0 else (-INF, 0.0)
        yield Part(words(place, f"{one} and {other}"), found, least, most)


def share_above(t: Table, curve: str, level: float, panel: Names = None) -> Iterator[Part]:
    """The share of positive numbers over all panels exceeds a level."""
    values: dict[str, list[float]] = {}
    for place in panels(t, panel):
        for run, value in t.by_run(place, curve).items():
            values.setdefault(run, []).append(value)
    yield Part(f"share of {curve} above 0", share_of_runs(values), level)


def peak(
    t: Table, way: str, curve: Names = None, panel: Names = None, of: str | None = None
) -> Iterator[Part]:
    """Curves rise to their highest point ("rises"), fall from it to the end ("falls"), or rise ("grows").

    The point of a run is the maximum of the mean of the *other* runs, without the ends, so that selection
    and verdict use different runs. of: another panel in which the same curve determines the peak.
    """
    for place, one in curves(t, panel, curve):
        xs = t.of_curve(place, one)
        values, guide = (t.cells.get((own, one), {}) for own in (place, of or place))
        changes: Values[str] = {}
        for run in values.get(xs[0], {}) if len(xs) > 2 else ():
            means = {x: others_mean(guide[x], run) for x in xs[1:-1]}
            if any(mean is None for mean in means.values()):
                continue
            top = max(means, key=lambda x: means[x] or 0.0)
            start, high, end = (values[x][run] for x in (xs[0], top, xs[-1]))
            changes[run] = {"rises": high - start, "falls": high - end, "grows": end - high}[way]
        yield Part(words(place, one), above_zero(changes), 0)


def others_mean(values: Values[str], run: str) -> float | None:
    """The mean over all runs except one."""
    others = [value for name, value in values.items() if name != run]
    return float(np.mean(others)) if others else None


def spread(t: Table, x: X, by: float) -> Iterator[Part]:
    """The highest curve is above the lowest by a margin; the other runs select both curves."""
    cells = {curve: own[x] for (_, curve), own in t.cells.items() if x in own}
    gaps: Values[str] = {}
    for run in dict.fromkeys(run for values in cells.values() for run in values):
        means = {c: m for c, v in cells.items() if (m := others_mean(v, run)) is not None}
        if means:
            highest, lowest = (pick(means, key=means.__getitem__) for pick in (max, min))
            gaps[run] = cells[highest][run] - cells[lowest][run]
    yield Part("highest - lowest", above_zero(gaps), by)


def computed(t: Table, claim: str, least: float = 0) -> Iterator[Part]:
    """Differences that the experiment stored under the claim's id are above `least`."""
    for found in t.intervals.get(claim) or [None]:
        yield Part("", found, least)


def besides(*names: X) -> Callable[[list[Any]], list[Any]]:
    """Select all names, or x, but these."""
    return lambda every: [name for name in every if name not in names]


def among(*names: X) -> Callable[[list[Any]], list[Any]]:
    """Select those of these names, or x, that a table has."""
    return lambda every: [name for name in every if name in names]


def panels(t: Table, panel: Names) -> list[str]:
    """The selected panels; default: all except pooled ones, whose runs are in the others."""
    return selected(panel, [p for p in t.panels if panel is not None or p not in t.pooled])


def curves(t: Table, panel: Names, curve: Names) -> Iterator[tuple[str, str]]:
    """Pairs of panel and curve; by default all curves."""
    return ((p, one) for p in panels(t, panel) for one in selected(curve, t.curves(p)))


def means(t: Table, x: X) -> Values[str]:
    """The mean of a column in each curve."""
    found = {f"{p}: {c}": t.mean(p, c, x) for p, c in t.cells}
    return {name: mean for name, mean in found.items() if mean is not None}


def words(*names: str) -> str:
    """The names that are not empty, separated by commas."""
    return ", ".join(filter(None, names))
