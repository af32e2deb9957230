"""Weighted Flips: chapter 3 of Ori Press's thesis, the accuracy on whole data sets without labels."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ...drawing import panels, saved
from ..results.palette import COLOURS
from ..results.run_statistics import Difference, Values, above_zero, paired, share_of_runs
from ..results.runs import Run, grouped
from . import tent_phases
from .accuracy_tables import Renamed, name_of
from .claims import Part, Parts, means
from .experiment import EMBEDDED, experiment, matches
from .picture import scatter
from .table import LAST, Table, tidy

if TYPE_CHECKING:
    from ...callbacks.functional.flips import FlipFunction
    from ..results.flip_points import Point

HELD = ("holdout*",)  # settings to which f is fitted, and which are not estimated
# The columns of Table 3.1 and their names in runs; ATC uses the largest probability.
ESTIMATES = {"AC": "AC_T", "DoC": "DoC_T", "ATC": "ATC-MC_T", "COT": "COT_T"}
UNIT = "mean absolute error, points"
SETS = "data sets"
ADAPTING = ["Source", "RDumb"]
WIDTH8 = ["ViT", "width8"]
# 1,000 images of 500 classes.
TOO_FEW = {
    EMBEDDED: "1,000 images of 500 classes are too few for COT: without any shift it errs by 28 points "
    "there, so these runs cannot judge it; runs with fewer classes are needed"
}
ONE_SEED = {
    EMBEDDED: "the draws share their data sets and one seed, so that their spread is no sampling error; "
    "several seeds are needed (here ATC has the least error at all 14 sizes)"
}
Runs = list[Run]
Rows = list[tuple[Any, ...]]


class Column(NamedTuple):
    """A column of a table: points, f, and the estimate ("WF", or one of ESTIMATES)."""

    points: "list[Point]"
    f: "FlipFunction | None"
    estimate: str = "WF"


def parted(runs: Iterable[Run], fit_on: Sequence[str] = HELD) -> "tuple[list[Point], list[Point]]":
    """The points for fitting f, and the other points."""
    from ..results.flip_points import points_of  # deferred: imports torch

    points = points_of(runs)
    held = [point for point in points if matches(point.run.setting, fit_on)]
    return held, [point for point in points if not matches(point.run.setting, fit_on)]


def of_rdumb(points: "list[Point]") -> "list[Point]":
    """The points of RDumb on the first network."""
    return [point for point in points if point.run.variant == ("RDumb", "")]


def fitted(points: "list[Point]", degree: int = 2, weighted: bool = True) -> "FlipFunction | None":
    """f fitted to the points; None if there are too few."""
    from ..results.flip_points import fit_points  # deferred: imports torch

    enough = len({point.flips[True] for point in points}) > 2
    return fit_points(points, degree, weighted) if enough else None


def first_f(held: "list[Point]", f: str) -> "FlipFunction | None":
    """f by name or from a file; by default f fitted to the hold-out of RDumb's runs."""
    from ...callbacks.functional.flips import FlipFunction  # deferred: imports torch

    return FlipFunction.load(f) if f else fitted(of_rdumb(held))


def errors(column: Column) -> dict[str, Values[str]]:
    """The absolute errors |estimate - accuracy| in points, by setting and stream."""
    found: dict[str, Values[str]] = {}
    for point in column.points:
        value = point.source.get(ESTIMATES.get(column.estimate, ""))
        if column.estimate == "WF":
            value = None if column.f is None else column.f(point.flips[column.f.weighted])
        if value is not None:
            cells = found.setdefault(point.run.setting, {})
            cells[point.run.place] = 100 * abs(value - point.accuracy)
    return found


def table_of(columns: Mapping[str, Column]) -> pd.DataFrame:
    """Mean absolute errors, with datasets as rows."""
    found = {name: errors(column) for name, column in columns.items()}
    rows = [
        ("", setting, name, run, error)
        for setting in dict.fromkeys(setting for own in found.values() for setting in own)
        for name, own in found.items()
        for run, error in own.get(setting, {}).items()
    ]
    return tidy(rows, unit=UNIT, summary="rows")


@experiment("flips/T3.1", "flips/sets", method=ADAPTING, published="T3.1")
def whole_sets(runs: Runs, fit_on: Sequence[str] = HELD, f: str = "") -> pd.DataFrame:
    """errors of AC, DoC, ATC, COT and weighted flips for whole data sets"""
    held, rest = parted(runs, fit_on)
    own, function = of_rdumb(rest) or rest, first_f(held, f)
    return table_of({name: Column(own, function, name) for name in (*ESTIMATES, "WF")})


for name in ESTIMATES:
    whole_sets.says(
        f"less-than-{name.lower()}",
        undecidable=TOO_FEW if name == "COT" else {},
    ).lower_mean("WF", name)


@whole_sets.says("less-by-a-share")
def less_by_a_share(t: Table) -> Parts:
    """This share of the others' mean error over the data sets minus that of weighted flips."""
    for other in ("AC", "DoC", "ATC"):
        theirs = {name: (1 - 0.296) * error for name, error in means(t, other).items()}
        yield Part(f"{1 - 0.296:g} x {other} - WF", paired(theirs, means(t, "WF")), 0, of=SETS)


@whole_sets.says(
    "top-two",
    undecidable=TOO_FEW,
)
def top_two(t: Table) -> Parts:
    """The share of the data sets on which at most one estimate has a smaller error."""
    columns = [means(t, other) for other in t.xs]
    found = share_of_runs(
        {
            name: [1.5 - sum(own.get(name, np.inf) < value for own in columns)]
            for name, value in means(t, "WF").items()
        }
    )
    yield Part("share with WF among two", found, 0.5, of=SETS)


def with_one_f(
    runs: Runs, x: str, fit_on: Sequence[str], f: str, renamed: Renamed = None
) -> pd.DataFrame:
    """The adapting runs by name, all with RDumb's f."""
    held, rest = parted(runs, fit_on)
    function = first_f(held, f)
    by_name = grouped(rest, lambda point: str(name_of(point.run, x, renamed)))
    return table_of({name: Column(own, function) for name, own in by_name.items()})


@experiment(
    "flips/T3.2",
    ["flips/sets", "flips/architectures"],
    full=["flips/ten-sets", "flips/architectures"],
    method=ADAPTING,
    at_full={"renamed": {"": "RN50", "ViT": "ViT-B/16"}},
    published="T3.2",
)
def architectures(
    runs: Runs, fit_on: Sequence[str] = HELD, f: str = "", renamed: Renamed = None
) -> pd.DataFrame:
    """errors of weighted flips for other architectures, with one f for all"""
    return with_one_f(runs, "override", fit_on, f, renamed or {"": "first"})


# The thesis' largest mean is 6.76, of ResNeXt-101.
architectures.threshold("below-limit").mean_below(7, without="first")


@experiment(
    "flips/Fig3.1",
    "flips/clusters",
    stream=["gaussian_noise 3", "IN-C, gaussian_noise 3"],
    picture=tent_phases.draw_embeddings,
)
def embeddings(runs: Runs) -> pd.DataFrame:
    """t-SNE of held-out images of 16 classes early and late in Tent on Gaussian noise 3"""
    return tent_phases.at_ends(runs)


embeddings.says("early-gain").rises("accuracy", start="start", to="early")
embeddings.says("late-loss").falls("accuracy", start="start", to="late")
embeddings.says(
    "late-shift",
    points=False,
).rises("shift", start="early", to="late")
embeddings.says("late-clusters", points=False).rises("silhouette", start="early", to="late")


@experiment("flips/Fig3.2", "flips/omission", setting="top", published="Fig3.2")
def without_top_k(runs: Runs) -> pd.DataFrame:
    """Tent without the images whose label is in the model's top k: accuracy gained on others"""
    return tent_phases.gains(runs, "top", "top-k =")


without_top_k.says("all").positive("top-k = 0")
for id, k, share in (("without-right", 1, 0.85), ("without-ten", 10, 0.64)):
    without_top_k.says(id).positive(f"top-k = {k}")
    without_top_k.says(f"{id}-share").share_kept(f"top-k = {k}", "top-k = 0", share)
    without_top_k.threshold(f"{id}-half").share_kept(f"top-k = {k}", "top-k = 0", 0.5)
without_top_k.says("ordered").ordered([f"top-k = {k}" for k in (0, 1, 10, 50)], x=LAST)


@experiment(
    "flips/Fig3.4",
    "flips/phases",
    override="",
    published="Fig3.4",
    picture=scatter(("accuracy", "silhouette"), ("accuracy", "shift")),
    points=False,
)
def phases(runs: Runs) -> pd.DataFrame:
    """Tent's two phases: change of silhouette and shift distance against that of accuracy"""
    return tent_phases.changes(runs)


phases.says("clusters-rise").positive("silhouette", x=None)
phases.says("nearly-always").share_above("silhouette", 0.98)
phases.says("rise-together").rank_correlation("silhouette", "accuracy", "phase 1")
phases.says("fall-with-shift").rank_correlation("shift", "accuracy", "phase 2", sign=-1)
phases.says("shift-grows").positive("shift", "phase 2", x=None)
phases.says("shift-grows-more").above("shift", "shift", "phase 2", than_panel="phase 1")


@experiment(
    "flips/Fig3.5",
    ["flips/source", "flips/silhouette"],
    picture=scatter(*tent_phases.PAIRS),
    points=False,
)
def starts(runs: Runs) -> pd.DataFrame:
    """label flips after RDumb against silhouette at the start, and both against accuracy"""
    return tent_phases.at_the_start(runs)


starts.says("clusters-flips").rank_correlation(tent_phases.SILHOUETTE, tent_phases.FLIPS, sign=-1)
starts.says("accuracy-flips").rank_correlation(tent_phases.ACCURACY, tent_phases.FLIPS, sign=-1)
starts.says("accuracy-clusters").rank_correlation(tent_phases.ACCURACY, tent_phases.SILHOUETTE)


FITTED, OTHERS = "fitted", "others"  # panels


def draw_fit(t: Table, cells: list[Any], path: Path) -> Path:
    """Draw the points and f (left) and the estimates against the true accuracies (right)."""
    figure, (left, right) = panels(2, size=(8, 3.6))
    others = [panel for panel in t.panels if panel != FITTED]
    greys = ["0.6"] if len(others) == 1 else COLOURS
    numbers = {}
    for n, part in enumerate([*others, FITTED]):
        colour = "#d62728" if part == FITTED else greys[n % len(greys)]
        curves = [[t.mean(part, c, x) for x in NUMBERS] for c in t.curves(part)]
        numbers[part] = flips, truth, estimate = np.array(curves, dtype=float).T
        left.plot(flips, truth, "o", ms=4, color=colour, label=part)
        right.plot(truth, estimate, "o", ms=4, color=colour, label=part)
    every = np.concatenate([numbers[FITTED], numbers[others[0]]], axis=1)
    flips, _, estimate = every[:, np.argsort(every[0])]
    left.plot(flips, estimate, color="black", lw=1.2, label="f")
    right.plot([0, 100], [0, 100], color="black", lw=0.8)
    left.set_xlabel("weighted flips of 1,000")
    left.set_ylabel("accuracy, %")
    right.set_xlabel("accuracy, %")
    right.set_ylabel("estimate, %")
    left.legend(frameon=False, fontsize=8)
    return saved(figure, path)


NUMBERS = ("flips", "accuracy", "estimate")


@experiment(
    "flips/Fig3.6",
    "flips/sets",
    full=["flips/ten-sets", "flips/architectures"],
    method=ADAPTING,
    at_full={"shown": ["IN-D *"], "networks": {"": "RN50", "ViT": "ViT-B/16"}},
    picture=draw_fit,
)
def fit(runs: Runs, shown: Sequence[str] = ("*",), networks: Renamed = None) -> pd.DataFrame:
    """f through the flips of the hold-out corruptions; its estimates against the truth elsewhere"""
    held, rest = parted(runs)
    f = fitted(of_rdumb(held))
    rows: Rows = []
    if f is None:
        return tidy(rows)
    rest = [point for point in rest if matches(point.run.setting, shown)]
    # One panel per network, all with the f of the first.
    others = grouped(rest, lambda p: name_of(p.run, "override", networks) if networks else OTHERS)
    for panel, points in {FITTED: of_rdumb(held), **others}.items():
        for point in points:
            flips = point.flips[True]
            values = zip(NUMBERS, (flips, 100 * point.accuracy, 100 * f(flips)), strict=True)
            rows += [(panel, point.run.stream, x, point.run.place, value) for x, value in values]
    terms = ", ".join(f"{c:.5g}" for c in f.coefficients)
    notes = [f"f has the coefficients {terms}, highest degree first"]
    return tidy(rows, unit="flips of 1,000; accuracy, %", notes=notes)


# Table 3.1 has 5.75.
@fit.threshold("near-truth")
def near_truth(t: Table) -> Parts:
    """The mean error on the streams outside the fit, for every network."""
    for panel in (name for name in t.panels if name != FITTED):
        gaps: Values[str] = {}
        for curve in t.curves(panel):
            truth = t.values(panel, curve, "accuracy")
            for run, estimate in t.values(panel, curve, "estimate").items():
                gaps[run] = abs(estimate - truth[run])
        yield Part(panel, above_zero(gaps), most=6, of="streams")


@experiment("flips/Fig3.7", "flips/sets", method=ADAPTING, points=False)
def subsets(runs: Runs) -> pd.DataFrame:
    """errors of weighted flips with f fitted to random subsets of the data sets, 50 draws per size"""
    settings = grouped(parted(runs)[1], lambda point: point.run.setting)
    rows: Rows = []
    random = np.random.default_rng(0)
    # The hold-out is not used. The errors of the other estimators are on the same datasets.
    names = list(settings)
    sizes = [n for n in range(1, len(names)) if fitted(within(settings, names[:n]))]
    for size in sizes:
        for draw in range(50):
            chosen = {str(name) for name in random.choice(names, size, replace=False)}
            f = fitted(within(settings, sorted(chosen)))
            if f is None:
                continue
            rest = within(settings, [name for name in names if name not in chosen])
            for name in (*ESTIMATES, "WF"):
                cells = errors(Column(rest, f, name)).values()
                if per_set := [float(np.mean(list(own.values()))) for own in cells]:
                    rows.append(("", name, size, f"draw {draw}", float(np.mean(per_set))))
    return tidy(rows, unit=UNIT, axis="data sets that f is fitted to")


def within(settings: "Mapping[str, list[Point]]", names: Iterable[str]) -> "list[Point]":
    """The points of these datasets."""
    return [point for name in names for point in settings[name]]


def sizes_ahead(t: Table, *others: str) -> Parts:
    """Weighted flips have a smaller error than another estimator at more than half the sizes."""
    for other in others:
        pairs = [[t.mean("", name, x) or 0 for name in (other, "WF")] for x in t.xs]
        ahead = [theirs > ours for theirs, ours in pairs]
        found = Difference(float(np.mean(ahead)), None, None, 1) if ahead else None
        yield Part(f"{other} behind", found, 0.5)


subsets.says("ahead-of-cot", undecidable=TOO_FEW).by(sizes_ahead, "COT")
subsets.says(
    "ahead-of-all",
    undecidable=ONE_SEED,
).by(sizes_ahead, "AC", "DoC", "ATC")
