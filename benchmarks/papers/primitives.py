"""Kinds of claims, each a pure function of a tidy table and of the numbers in a declaration.

Every function returns the parts of a claim, all of which must hold. `curve` and `than` are names of curves,
`panel` of panels (default: all), each a name or a list; there is one part per combination. Each run is
averaged over `x` before runs are compared; with `each`, every x is a part.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import pairwise, product
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
from .table import Selector, Table, X, written

INF = float("inf")
Names = str | list[str] | None


class Part(NamedTuple):
    """A number that must be above `least` and below `most`."""

    name: str
    found: Difference | None  # None: runs are missing
    least: float = -INF
    most: float = INF
    of: str = "runs"


def above(
    table: Table,
    curve: Names,
    than: Names,
    panel: Names = None,
    x: Selector = None,
    each: Selector = None,
    by: float = 0,
    than_panel: str | None = None,
) -> list[Part]:
    """Claim: curves lie above others (in `than_panel`, if given), by a margin."""
    parts = []
    for place, one, other in product(panels(table, panel), listed(curve), listed(than)):
        beside = place if than_panel is None else than_panel
        for name, xs in groups(table, x, each):
            found = table.difference((place, one), (beside, other), xs)
            parts.append(Part(words(place, f"{one} - {other}", name), found, by))
    return parts


def ordered(table: Table, curves: list[str], panel: Names = None, x: Selector = None) -> list[Part]:
    """Claim: each curve lies above the next one."""
    pairs = pairwise(curves)
    return [part for one, other in pairs for part in above(table, one, other, panel=panel, x=x)]


def below(
    table: Table,
    curve: Names,
    than: Names,
    panel: Names = None,
    than_panel: str | None = None,
    **rest: Any,
) -> list[Part]:
    """Claim: curves, such as errors, lie below others, by a margin."""
    if than_panel is None:
        return above(table, than, curve, panel=panel, **rest)
    pairs = product(panels(table, panel), listed(than))
    return [
        part
        for place, other in pairs
        for part in above(table, other, curve, panel=than_panel, than_panel=place, **rest)
    ]


def rises(
    table: Table,
    curve: Names = None,
    panel: Names = None,
    start: Selector = "first",
    to: Selector = "last",
    by: float = 0,
    of: str = "runs",
) -> list[Part]:
    """Claim: curves rise from each x in `start` to each x in `to`, by a margin."""
    parts = []
    for place, one in curves(table, panel, curve):
        for first, last in product(*(table.chosen(s, place, one) for s in (start, to))):
            found = table.difference((place, one), (place, one), [last], [first])
            name = words(place, one, f"{written(last)} - {written(first)}")
            parts.append(Part(name, found, by, of=of))
    return parts


def falls(
    table: Table, start: Selector = "first", to: Selector = "last", **rest: Any
) -> list[Part]:
    """Claim: curves fall from each x in `start` to each x in `to`, by a margin."""
    return rises(table, start=to, to=start, **rest)


def falls_along(
    table: Table, curve: Names = None, panel: Names = None, x: Selector = None
) -> list[Part]:
    """Claim: curves fall from each x to the next."""
    return [
        part
        for place, one in curves(table, panel, curve)
        for a, b in pairwise(table.chosen(x, place, one))
        for part in falls(table, curve=one, panel=place, start=a, to=b)
    ]


def near(
    table: Table,
    within: float,
    curve: Names = None,
    than: str | None = None,
    panel: Names = None,
    x: Selector = None,
    to: Selector = None,
) -> list[Part]:
    """Claim: curves differ by less than a margin from another one at each x, or from their own at `to`."""
    parts = []
    for place, one in curves(table, panel, curve):
        for at in table.chosen(x, place, one):
            for end in [at] if to is None else table.chosen(to, place, one):
                if end == at and than is None:
                    continue
                found = table.difference((place, one), (place, than or one), [at], [end])
                other = than or written(end)
                name = words(place, one, f"{written(at)} - {other}")
                parts.append(Part(name, found, -within, within))
    return parts


def positive(
    table: Table, curve: Names = None, panel: Names = None, x: Selector = "last", sign: int = 1
) -> list[Part]:
    """Claim: the numbers, which are differences, are above 0 (sign -1: below 0)."""
    parts = []
    for place, one in curves(table, panel, curve):
        values = table.by_run(place, one, table.chosen(x, place, one))
        found = above_zero({run: sign * value for run, value in values.items()})
        parts.append(Part(words(place, one), found, 0))
    return parts


def share_kept(table: Table, curve: Names, of: str, share: float, x: Selector) -> list[Part]:
    """Claim: curves exceed a share of another one's value."""
    whole = table.by_run("", of, table.chosen(x))
    scaled = {run: share * value for run, value in whole.items()}
    own = {one: table.by_run("", one, table.chosen(x)) for one in listed(curve)}
    return [Part(f"{one} - {share:g} x {of}", paired(v, scaled), 0) for one, v in own.items()]


def lower_mean(table: Table, x: X, than: Names) -> list[Part]:
    """Claim: over the curves (datasets), averaged over runs, column x is lower than other columns."""
    return [
        Part(f"{other} - {x}", paired(means(table, other), means(table, x)), 0, of="data sets")
        for other in listed(than)
    ]


def mean_below(table: Table, limit: float, without: Names = None) -> list[Part]:
    """Claim: the mean of each column over the curves (datasets) is below a limit."""
    left_out = listed(without)
    return [
        Part(str(x), above_zero(means(table, x)), most=limit, of="data sets")
        for x in table.xs
        if x not in left_out
    ]


def rank_correlation(
    table: Table, one: str, other: str, panel: Names = None, sign: int = 1
) -> list[Part]:
    """Claim: Spearman's correlation of two curves over the runs is positive (sign -1: negative)."""
    parts = []
    for place in panels(table, panel):
        found = rank_correlated(table.by_run(place, one), table.by_run(place, other))
        least, most = (0.0, INF) if sign > 0 else (-INF, 0.0)
        parts.append(Part(words(place, f"{one} and {other}"), found, least, most))
    return parts


def share_above(table: Table, curve: str, level: float, panel: Names = None) -> list[Part]:
    """Claim: the share of positive numbers over all panels exceeds a level."""
    values: dict[str, list[float]] = {}
    for place in panels(table, panel):
        for run, value in table.by_run(place, curve).items():
            values.setdefault(run, []).append(value)
    return [Part(f"share of {curve} above 0", share_of_runs(values), level)]


def peak(
    table: Table,
    way: str,
    panel: Names = None,
    curve: Names = None,
    of: str | None = None,
) -> list[Part]:
    """Claim: curves rise to their highest point ("rises"), or fall from it to the end ("falls").

    The point of a run is the maximum of the mean of the *other* runs, without the ends, so that selection
    and verdict use different runs. of: another panel in which the same curve determines the peak.
    """
    parts = []
    for place, one in curves(table, panel, curve):
        xs = table.of(place, one)
        values = table.cells.get((place, one), {})
        guide = table.cells.get((of or place, one), {})
        changes: Values[str] = {}
        for run in values.get(xs[0], {}) if len(xs) > 2 else ():
            means = {x: others_mean(guide[x], run) for x in xs[1:-1]}
            if any(mean is None for mean in means.values()):
                continue
            top = max(means, key=lambda x: means[x] or 0.0)
            at = {"start": xs[0], "top": top, "end": xs[-1]}
            a, b = {"rises": ("top", "start"), "falls": ("top", "end"), "grows": ("end", "top")}[
                way
            ]
            changes[run] = values[at[a]][run] - values[at[b]][run]
        parts.append(Part(words(place, one), above_zero(changes), 0))
    return parts


def others_mean(values: Values[str], run: str) -> float | None:
    """The mean over all runs except one."""
    others = [value for name, value in values.items() if name != run]
    return float(np.mean(others)) if others else None


def spread(table: Table, x: X, by: float) -> list[Part]:
    """Claim: the highest curve is above the lowest by a margin; the other runs select both curves."""
    cells = {curve: own[x] for (_, curve), own in table.cells.items() if x in own}
    gaps: Values[str] = {}
    for run in dict.fromkeys(run for values in cells.values() for run in values):
        means = {c: m for c, v in cells.items() if (m := others_mean(v, run)) is not None}
        if means:
            highest, lowest = (pick(means, key=means.__getitem__) for pick in (max, min))
            gaps[run] = cells[highest][run] - cells[lowest][run]
    return [Part("highest - lowest", above_zero(gaps), by)]


def computed(table: Table, claim: str, least: float = 0) -> list[Part]:
    """Claim: differences that the analysis stored in the table under the claim's id are above `least`."""
    return [Part("", found, least) for found in table.intervals.get(claim) or [None]]


def analysis(table: Table, function: str, **arguments: Any) -> list[Part]:
    """Claim: the parts from an analysis of one paper, such as "rdumb.peaks.gained"."""
    return located(function)(table, **arguments)


def located(function: str) -> Callable[..., Any]:
    """A function of this package by its path: "rdumb.peaks.gained"."""
    module, _, name = function.rpartition(".")
    return getattr(import_module(f".{module}", __package__), name)


PRIMITIVES: dict[str, Callable[..., list[Part]]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (
        *(above, below, ordered, rises, falls, falls_along, near, positive, share_kept, lower_mean),
        *(mean_below, rank_correlation, share_above, peak, spread, computed, analysis),
    )
}


def listed(names: Names | Iterable[str]) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def panels(table: Table, panel: Names) -> list[str]:
    """The given panels; default: all except pooled ones, whose runs are in the others."""
    every = [name for name in table.panels if name not in table.pooled]
    return every if panel is None else listed(panel)


def curves(table: Table, panel: Names, curve: Names) -> Iterator[tuple[str, str]]:
    """Pairs of panel and curve; by default all curves."""
    for place in panels(table, panel):
        for one in table.curves(place) if curve is None else listed(curve):
            yield place, one


def groups(table: Table, x: Selector, each: Selector) -> Iterator[tuple[str, list[X]]]:
    """The parts that `each` divides a claim into, each with its x values."""
    if each is None:
        yield "", table.chosen(x)
    else:
        for one in table.chosen(None if each == "all" else each):
            yield written(one), [one]


def means(table: Table, x: X) -> Values[str]:
    """The mean of a column in each curve."""
    found = {f"{p}: {c}": table.mean(p, c, x) for p, c in table.cells}
    return {name: mean for name, mean in found.items() if mean is not None}


def words(*names: str) -> str:
    return ", ".join(filter(None, names))
