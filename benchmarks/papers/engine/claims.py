"""Claims on a table, and the checks that they consist of.

`rises("RDumb", last=REST)` makes a check: a function of a table that yields parts, all of which must
hold. `curve`, `than` and `panel` select names (default: all panels that are not pooled); `x`, `each`,
`first` and `last` select x by name, value or position. There is one part for each combination. Each run is
averaged over `x` before runs are compared; with `each`, every x is a part. A function of a table that
yields parts is a check, too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import combinations, pairwise, product
from typing import Any, Concatenate, NamedTuple, ParamSpec

import numpy as np

from ...results.run_statistics import (
    Difference,
    Values,
    above_zero,
    paired,
    rank_correlated,
    share_of_runs,
)
from .table import FIRST, LAST, Except, Positions, Selection, Table, X, header, selected

INF = float("inf")
PAPER, FIGURE, THRESHOLD, LATER, OURS = "paper", "figure", "threshold", "others", "ours"
GROUPS = {
    PAPER: "The papers' claims",
    FIGURE: "Our readings of the papers' figures",
    THRESHOLD: "The papers' claims with a threshold of ours",
    LATER: "Claims of later papers, checked on our streams",
    OURS: "Our own hypotheses",
}
Arguments = ParamSpec("Arguments")


class Part(NamedTuple):
    """A number that must be above `least` and below `most`.

    of: what is counted. direction: only its sign is judged, as its size is that of the paper's data.
    """

    name: str
    number: Difference | None  # None: runs are missing
    least: float = -INF
    most: float = INF
    of: str = "runs"
    direction: bool = False


Parts = Iterable[Part]
Check = Callable[[Table], Parts]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, or of ours, and its checks.

    group: whose claim it is, one of GROUPS. quote: the paper's own words or cells. premise: a check that
    must hold for the claim to be meaningful; `unless` states what is missing without it. undecidable: why
    embedded runs cannot decide the claim. direction: the sentence without its size, where only the
    direction is judged. same_as: the claim, such as "rdumb/T2.1 collapse", that states the same of the same
    runs and is counted instead. counts: what its checks count, if not runs.
    """

    id: str
    sentence: str
    checks: Sequence[Check]
    group: str = PAPER
    quote: str = ""
    premise: Check | None = None
    unless: str = ""
    undecidable: str = ""
    direction: str = ""
    same_as: str = ""
    counts: str = ""

    @property
    def names_x(self) -> bool:
        """Whether all its checks are about x that they name."""
        return all(getattr(check, "names_x", False) for check in self.checks)

    def sentence_of(self, parts: Sequence[Part]) -> str:
        """What these parts judge: the sentence, or only its direction."""
        return self.direction if any(part.direction for part in parts) else self.sentence

    def parts(self, table: Table) -> list[Part]:
        """The parts of all checks in a table."""
        parts = (part for check in self.checks for part in check(table))
        return [part._replace(of=self.counts or part.of) for part in parts]


class AtFull(float):
    """A size that was measured on the paper's data: judged at full scale, elsewhere `otherwise` is."""

    otherwise: float

    def __new__(cls, size: float, otherwise: float = 0) -> "AtFull":
        number = super().__new__(cls, size)
        number.otherwise = otherwise
        return number


def _elsewhere(value: object) -> object:
    """The value of an argument at another scale than the paper's."""
    return value.otherwise if isinstance(value, AtFull) else value


def primitive(
    parts: Callable[Concatenate[Table, Arguments], Parts],
) -> Callable[Arguments, Check]:
    """A function that makes checks, from one that yields parts of a table by further arguments."""

    @wraps(parts)
    def make(*args: Arguments.args, **options: Arguments.kwargs) -> Check:
        return _Primitive(parts, args, options)

    return make


@dataclass(frozen=True, eq=False)
class _Primitive:
    """A check by a function of a table and these arguments."""

    function: Callable[..., Parts]
    args: Sequence[Any]
    options: Mapping[str, Any]

    def __call__(self, table: Table) -> Iterator[Part]:
        values, sized = self.options, any(isinstance(v, AtFull) for v in self.options.values())
        if sized and not table.full:
            values = {name: _elsewhere(value) for name, value in self.options.items()}
        for part in self.function(table, *self.args, **values):
            yield part._replace(direction=sized and not table.full)

    @property
    def names_x(self) -> bool:
        """Whether it is about x that it names, not about all that a table has."""
        named = {k for k, v in self.options.items() if isinstance(v, str | int | float | Sequence)}
        return bool(named & {"x", "each"}) or named >= {"first", "last"}


@primitive
def above(
    t: Table,
    curve: Selection,
    than: Selection,
    *,
    panel: Selection = None,
    x: Selection = None,
    each: Selection = None,
    by: float = 0,
    than_panel: str | None = None,
    than_x: X | None = None,
    share: float = 1,
) -> Iterator[Part]:
    """Curves lie above others, or a share of them (in `than_panel` or at `than_x`), by a margin."""
    groups = [("", selected(x, t.xs))]
    if each is not None:
        groups = [(header(value), [value]) for value in selected(each, t.xs)]
    for key in curves(t, panel, curve):
        other_panel = key[0] if than_panel is None else than_panel
        for other, (name, xs) in product(selected(than, t.curves(other_panel)), groups):
            if than_x is None:
                number = t.difference(key, (other_panel, other), xs, share)
            else:
                name, theirs = header(than_x), t.values(other_panel, other, than_x)
                number = t.gap(t.by_run(*key, xs), {run: share * v for run, v in theirs.items()})
            other = "0" if share == 0 else other if share == 1 else f"{share:g} x {other}"
            yield Part(words(key[0], f"{key[1]} - {other}", name), number, by)


@primitive
def below(
    t: Table,
    curve: Selection,
    than: Selection,
    *,
    panel: Selection = None,
    x: Selection = None,
    than_panel: str | None = None,
) -> Parts:
    """Curves, such as errors, lie below others (in `than_panel`, if given)."""
    if than_panel is None:
        return above(than, curve, panel=panel, x=x)(t)
    (only,) = selected(panel, t.panels)
    return above(than, curve, panel=than_panel, than_panel=only, x=x)(t)


@primitive
def rises(
    t: Table,
    curve: Selection = None,
    *,
    panel: Selection = None,
    first: Selection = FIRST,
    last: Selection = LAST,
    by: float = 0,
) -> Iterator[Part]:
    """Curves rise from each x in `first` to each x in `last`, by a margin."""
    for key in curves(t, panel, curve):
        xs = t.xs_of(*key)
        for start, end in product(selected(first, xs), selected(last, xs)):
            number = t.gap(t.values(*key, end), t.values(*key, start))
            yield Part(words(*key, f"{header(end)} - {header(start)}"), number, by)


@primitive
def falls(
    t: Table,
    curve: Selection = None,
    *,
    panel: Selection = None,
    first: Selection = FIRST,
    last: Selection = LAST,
    by: float = 0,
) -> Parts:
    """Curves fall from each x in `first` to each x in `last`, by a margin."""
    return rises(curve, panel=panel, first=last, last=first, by=by)(t)


@primitive
def falls_throughout(
    t: Table, curve: Selection = None, *, panel: Selection = None, x: Selection = None
) -> Iterator[Part]:
    """Curves fall from each x to the next."""
    for key in curves(t, panel, curve):
        for start, end in pairwise(selected(x, t.xs_of(*key))):
            yield from falls(key[1], panel=key[0], first=start, last=end)(t)


@primitive
def highest_at(t: Table, curve: str, position: int, *, panel: Selection = None) -> Iterator[Part]:
    """A curve is higher at this position (1: the first x) than everywhere else."""
    for key in curves(t, panel, curve):
        xs = t.xs_of(*key)
        top = Positions(position, position).of(xs)
        yield from rises(key[1], panel=key[0], first=Except(*top).of(xs), last=top)(t)


@primitive
def near(
    t: Table,
    curve: Selection,
    than: str,
    *,
    panel: Selection = None,
    x: Selection = None,
    within: float,
) -> Iterator[Part]:
    """Curves differ from another one by less than a margin at each x."""
    for panel_name, name in curves(t, panel, curve):
        for at in selected(x, t.xs_of(panel_name, name)):
            number = t.gap(t.values(panel_name, name, at), t.values(panel_name, than, at))
            title = words(panel_name, name, f"{header(at)} - {than}")
            yield Part(title, number, -within, within)


@primitive
def steady(
    t: Table,
    curve: Selection = None,
    *,
    panel: Selection = None,
    x: Selection = None,
    around: Selection = None,
    within: float,
) -> Iterator[Part]:
    """The numbers of a curve at `x` differ by less than a margin from those at `around`.

    Without `around`, they do so between any two x.
    """
    for key in curves(t, panel, curve):
        xs = selected(x, t.xs_of(*key))
        pairs: Iterable[tuple[X, X]] = combinations(xs, 2)
        if around is not None:
            pairs = product(xs, selected(around, t.xs_of(*key)))
        for at, end in pairs:
            if at != end:
                number = t.gap(t.values(*key, at), t.values(*key, end))
                yield Part(words(*key, f"{header(at)} - {header(end)}"), number, -within, within)


@primitive
def bounded(
    t: Table,
    curve: Selection = None,
    *,
    panel: Selection = None,
    x: Selection = None,
    least: float = -INF,
    most: float = INF,
) -> Iterator[Part]:
    """The numbers of curves at each x are within limits; parts are named by what is not a single name."""
    for panel_name, name in curves(t, panel, curve):
        for at in selected(x, t.xs_of(panel_name, name)):
            shown = "" if isinstance(panel, str) else panel_name
            title = words(shown, name, "" if isinstance(x, str) else header(at))
            yield Part(title, t.gap(t.values(panel_name, name, at)), least, most)


@primitive
def positive(
    t: Table, curve: Selection = None, *, panel: Selection = None, x: Selection = None
) -> Iterator[Part]:
    """The numbers of curves, which are differences, are above 0, mean over x by run."""
    for name, numbers in _means_over(t, curve, panel, x):
        yield Part(name, above_zero(numbers), 0)


@primitive
def negative(
    t: Table, curve: Selection = None, *, panel: Selection = None, x: Selection = None
) -> Iterator[Part]:
    """The numbers of curves, which are differences, are below 0, mean over x by run."""
    for name, numbers in _means_over(t, curve, panel, x):
        yield Part(name, above_zero({run: -value for run, value in numbers.items()}), 0)


def _means_over(
    t: Table, curve: Selection, panel: Selection, x: Selection
) -> Iterator[tuple[str, Values[str]]]:
    """Each curve's name, and the mean of its numbers over x by run."""
    for key in curves(t, panel, curve):
        yield words(*key), t.by_run(*key, selected(x, t.xs_of(*key)))


@primitive
def lower_mean(t: Table, x: X, than: Iterable[str], *, by_share: float = 0) -> Iterator[Part]:
    """Over the curves (data sets), averaged over runs, column x is lower than others, or by a share."""
    for other in than:
        theirs = {name: (1 - by_share) * mean for name, mean in means(t, other).items()}
        name = f"{1 - by_share:g} x {other}" if by_share else other
        yield Part(f"{name} - {x}", paired(theirs, means(t, x)), 0, of="data sets")


@primitive
def mean_below(t: Table, limit: float, *, without: Sequence[X] = ()) -> Iterator[Part]:
    """The mean of each column over the curves (data sets) is below a limit."""
    for x in Except(*without).of(t.xs):
        yield Part(str(x), above_zero(means(t, x)), most=limit, of="data sets")


@primitive
def rank_correlation(
    t: Table, curve: str, other: str, *, panel: Selection = None, negative: bool = False
) -> Iterator[Part]:
    """Spearman's correlation of two curves over the runs is positive, or negative."""
    for name in panels(t, panel):
        number = rank_correlated(t.by_run(name, curve), t.by_run(name, other))
        least, most = (-INF, 0.0) if negative else (0.0, INF)
        yield Part(words(name, f"{curve} and {other}"), number, least, most)


@primitive
def share_above(t: Table, curve: str, *, level: float, panel: Selection = None) -> Iterator[Part]:
    """The share of positive numbers over all panels exceeds a level."""
    numbers: dict[str, list[float]] = {}
    for name in panels(t, panel):
        for run, value in t.by_run(name, curve).items():
            numbers.setdefault(run, []).append(value)
    yield Part(f"share of {curve} above 0", share_of_runs(numbers), level)


@primitive
def rises_to_peak(t: Table, curve: Selection = None, *, panel: Selection = None) -> Iterator[Part]:
    """Curves rise from the start to their highest point."""
    for name, peaks in _peaks(t, curve, panel):
        yield Part(
            name, above_zero({run: top - start for run, (start, top, _) in peaks.items()}), 0
        )


@primitive
def falls_from_peak(
    t: Table, curve: Selection = None, *, panel: Selection = None
) -> Iterator[Part]:
    """Curves fall from their highest point to the end."""
    for name, peaks in _peaks(t, curve, panel):
        yield Part(name, above_zero({run: top - end for run, (_, top, end) in peaks.items()}), 0)


@primitive
def grows_after_peak_of(
    t: Table, other: str, curve: Selection = None, *, panel: Selection = None
) -> Iterator[Part]:
    """Curves rise to the end from the point at which the same curve in another panel is highest."""
    for name, peaks in _peaks(t, curve, panel, other):
        yield Part(name, above_zero({run: end - top for run, (_, top, end) in peaks.items()}), 0)


def _peaks(
    t: Table, curve: Selection, panel: Selection, other: str | None = None
) -> Iterator[tuple[str, dict[str, tuple[float, float, float]]]]:
    """Each curve's name, and its numbers by run at the start, at the peak, and at the end.

    The peak of a run is the maximum of the mean of the *other* runs, without the ends, so that selection
    and verdict use different runs. other: the panel in which the same curve determines the peak.
    """
    for key in curves(t, panel, curve):
        xs, numbers = t.xs_of(*key), t.cells.get(key, {})
        guide = t.cells.get((other or key[0], key[1]), {})
        peaks: dict[str, tuple[float, float, float]] = {}
        for run in numbers.get(xs[0], {}) if len(xs) > 2 else ():
            others = {x: mean_of_others(guide[x], run) for x in xs[1:-1]}
            if any(mean is None for mean in others.values()):
                continue
            top = max(others, key=lambda x: others[x] or 0.0)
            peaks[run] = numbers[xs[0]][run], numbers[top][run], numbers[xs[-1]][run]
        yield words(*key), peaks


@primitive
def spread(t: Table, x: X, *, by: float) -> Iterator[Part]:
    """The highest curve is above the lowest by a margin; the other runs select both curves."""
    numbers = {curve: cells[x] for (_, curve), cells in t.cells.items() if x in cells}
    gaps: Values[str] = {}
    for run in dict.fromkeys(run for values in numbers.values() for run in values):
        others = {c: m for c, v in numbers.items() if (m := mean_of_others(v, run)) is not None}
        if others:
            highest, lowest = (pick(others, key=others.__getitem__) for pick in (max, min))
            gaps[run] = numbers[highest][run] - numbers[lowest][run]
    yield Part("highest - lowest", above_zero(gaps), by)


@primitive
def computed(t: Table, claim: str, *, least: float = 0) -> Iterator[Part]:
    """Differences that the experiment stored under the claim's id are above `least`."""
    for number in t.intervals.get(claim) or [None]:
        yield Part("", number, least)


def mean_of_others(values: Values[str], run: str) -> float | None:
    """The mean over all runs except one."""
    others = [value for name, value in values.items() if name != run]
    return float(np.mean(others)) if others else None


def panels(t: Table, panel: Selection) -> list[str]:
    """The selected panels; default: all except pooled ones, whose runs are in the others."""
    return selected(panel, [p for p in t.panels if panel is not None or p not in t.pooled])


def curves(t: Table, panel: Selection, curve: Selection) -> Iterator[tuple[str, str]]:
    """Pairs of panel and curve; by default all curves."""
    return ((p, c) for p in panels(t, panel) for c in selected(curve, t.curves(p)))


def means(t: Table, x: X) -> Values[str]:
    """The mean of a column in each curve."""
    numbers = {f"{p}: {c}": t.mean(p, c, x) for p, c in t.cells}
    return {name: mean for name, mean in numbers.items() if mean is not None}


def words(*names: str) -> str:
    """The names that are not empty, separated by commas."""
    return ", ".join(filter(None, names))
