"""Weighted Flips: Ori Press's thesis, chapter 3 and appendix B, on the accuracy on whole data sets."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from ...drawing import panels, saved
from ...run_folder import FLIPS
from ..results.figure import COLOURS
from ..results.run_statistics import Difference, above_zero, paired, share_of_runs, unpaired
from ..results.runs import Run, grouped
from .accuracy_tables import Renamed, name_of
from .claims import Part, Parts, besides, means
from .experiment import experiment
from .table import MOST_OF, Rows, Table, over_seeds, tidy

if TYPE_CHECKING:
    from ...callbacks.functional.flips import FlipFunction
    from ..results.flip_points import Point

# The columns of Table 3.1 and their names in runs; ATC uses the largest probability.
ESTIMATES = {"AC": "AC_T", "DoC": "DoC_T", "ATC": "ATC-MC_T", "COT": "COT_T"}
UNIT = "mean absolute error, points"
WIDTH8 = ["ViT", "width8"]
Runs = list[Run]
Points = list["Point"]
Estimate: TypeAlias = "FlipFunction | str | None"  # f, or one of ESTIMATES


def parted(runs: Iterable[Run]) -> tuple[Points, Points]:
    """The points of the hold-out, to which f is fitted, and the other points."""
    from ..results.flip_points import points_of  # deferred: imports torch

    found = grouped(points_of(runs), lambda point: point.run.setting.startswith("holdout"))
    return found.get(True, []), found.get(False, [])


def of_rdumb(points: Points) -> Points:
    """The points of RDumb on the first network."""
    return [point for point in points if point.run.variant == ("RDumb", "")]


def fitted(points: Points, degree: int = 2, weighted: bool = True) -> "FlipFunction | None":
    """f fitted to the points; None if there are too few."""
    from ..results.flip_points import fit_points  # deferred: imports torch

    enough = len({point.flips[True] for point in points}) > 2
    return fit_points(points, degree, weighted) if enough else None


def errors(points: Points, estimate: Estimate) -> pd.Series:
    """The absolute errors |estimate - accuracy| in points by setting and stream (mean of its seeds)."""
    rows: Rows = []
    for point in points:
        if isinstance(estimate, str):
            value = point.source.get(ESTIMATES[estimate])
        else:
            value = None if estimate is None else estimate(point.flips[estimate.weighted])
        if value is not None:
            error = 100 * abs(value - point.accuracy)
            rows.append((point.run.setting, point.run.stream, error))
    return pd.Series({tuple(names): error for *names, error in over_seeds(rows)}, dtype=float)


def table_of(columns: Mapping[str, tuple[Points, Estimate]]) -> pd.DataFrame:
    """Mean absolute errors, with datasets as rows."""
    rows = [
        ("", setting, name, run, error)
        for name, column in columns.items()
        for (setting, run), error in errors(*column).items()
    ]
    return tidy(rows, unit=UNIT, summary="rows")


@experiment("flips/T3.1")
def whole_sets(runs: Runs) -> pd.DataFrame:
    """errors of AC, DoC, ATC, COT and weighted flips for whole data sets"""
    held, rest = map(of_rdumb, parted(runs))
    return table_of({**{name: (rest, name) for name in ESTIMATES}, "WF": (rest, fitted(held))})


for name in ESTIMATES:
    size = {"by_share": MOST_OF * 0.296} if name == "COT" else {}
    whole_sets.says(f"less-than-{name.lower()}", at_full=size).lower_mean("WF", [name])


@whole_sets.says("top-two")
def top_two(t: Table) -> Parts:
    """The share of the data sets on which at most one estimate has a smaller error."""
    columns = [means(t, other) for other in t.xs]
    ranks = {
        name: [1.5 - sum(own.get(name, np.inf) < value for own in columns)]
        for name, value in means(t, "WF").items()
    }
    yield Part("share with WF among two", share_of_runs(ranks), 0.5, of="data sets")


def with_one_f(runs: Runs, x: str, renamed: Renamed = None) -> pd.DataFrame:
    """The adapting runs by name, all with RDumb's f."""
    held, rest = parted(runs)
    f = fitted(of_rdumb(held))
    by_name = grouped(rest, lambda point: str(name_of(point.run, x, renamed)))
    return table_of({name: (own, f) for name, own in by_name.items()})


architectures = experiment("flips/T3.2")(with_one_f, x="override", renamed={"": "first"})
# The thesis' largest mean is 6.76, of ResNeXt-101.
architectures.says("below-limit").mean_below(7, without=["first", "RN50"])


FITTED, OTHERS = "fitted", "others"  # panels


def draw_fit(t: Table, cells: list[Any], path: Path) -> Path:
    """Draw the points and f (left) and the estimates against the true accuracies (right)."""
    figure, (left, right) = panels(2, size=(8, 3.6))
    means = t.frame.pivot_table("value", ["panel", "curve"], "x", sort=False)
    others = besides(FITTED)(t.panels)
    greys = ["0.6"] if len(others) == 1 else COLOURS
    for n, panel in enumerate([*others, FITTED]):
        style = {"ms": 4, "color": "#d62728" if panel == FITTED else greys[n % len(greys)]}
        own = means.loc[panel]
        left.plot(own["flips"], own["accuracy"], "o", label=panel, **style)
        right.plot(own["accuracy"], own["estimate"], "o", label=panel, **style)
    line = means.loc[[FITTED, others[0]]].sort_values("flips")
    left.plot(line["flips"], line["estimate"], color="black", lw=1.2, label="f")
    right.plot([0, 100], [0, 100], color="black", lw=0.8)
    left.set(xlabel="weighted flips of 1,000", ylabel="accuracy, %")
    right.set(xlabel="accuracy, %", ylabel="estimate, %")
    left.legend(frameon=False, fontsize=8)
    return saved(figure, path)


@experiment("flips/Fig3.6", picture=draw_fit)
def fit(runs: Runs, shown: str = "*", networks: Renamed = None) -> pd.DataFrame:
    """f through the flips of the hold-out corruptions; its estimates against the truth elsewhere"""
    held, rest = parted(runs)
    if (f := fitted(of_rdumb(held))) is None:
        return tidy([])
    rest = [point for point in rest if fnmatchcase(point.run.setting, shown)]
    # One panel per network, all with the f of the first.
    others = grouped(rest, lambda p: name_of(p.run, "override", networks) if networks else OTHERS)
    rows: Rows = []
    for panel, points in {FITTED: of_rdumb(held), **others}.items():
        for point in points:
            flips = point.flips[True]
            numbers = {"flips": flips, "accuracy": 100 * point.accuracy, "estimate": 100 * f(flips)}
            place = point.run.place
            rows += [(panel, point.run.stream, x, place, value) for x, value in numbers.items()]
    terms = ", ".join(f"{c:.5g}" for c in f.coefficients)
    notes = [f"f has the coefficients {terms}, highest degree first"]
    return tidy(rows, unit="flips of 1,000; accuracy, %", notes=notes)


# The largest mean over the columns of IN-D in Table 3.2 is that of RNXt101.
@fit.says("near-truth")
def near_truth(t: Table) -> Parts:
    """The mean error on the streams outside the fit, for every network."""
    numbers = t.frame.pivot(index=["panel", "curve", "run"], columns="x", values="value")
    for panel in besides(FITTED)(t.panels):
        own = numbers.loc[panel]
        gaps = (own["estimate"] - own["accuracy"]).abs().to_dict()
        yield Part(panel, above_zero(gaps), most=8)


@experiment("flips/Fig3.7")
def subsets(runs: Runs) -> pd.DataFrame:
    """errors of weighted flips with f fitted to random subsets of the data sets, 50 draws per size"""
    # The hold-out is not used. The errors of the other estimators are on the same datasets.
    settings = grouped(parted(runs)[1], lambda point: point.run.setting)
    rows: Rows = []
    random = np.random.default_rng(0)
    names = list(settings)

    def within(some: Iterable[str]) -> Points:
        return [point for name in some for point in settings[name]]

    for size in (n for n in range(1, len(names)) if fitted(within(names[:n]))):
        for draw in range(50):
            chosen = {str(name) for name in random.choice(names, size, replace=False)}
            if (f := fitted(within(sorted(chosen)))) is None:
                continue
            rest = within(besides(*chosen)(names))
            estimates: dict[str, Estimate] = {**{name: name for name in ESTIMATES}, "WF": f}
            for name, estimate in estimates.items():
                if len(found := errors(rest, estimate)):
                    mean = found.groupby(level=0).mean().mean()
                    rows.append(("", name, size, f"draw {draw}", mean))
    return tidy(rows, unit=UNIT, axis="data sets that f is fitted to")


def sizes_ahead(t: Table, *others: str) -> Parts:
    """Weighted flips have a smaller error than another estimator at more than half the sizes."""
    for other in others:
        ahead = [(t.mean("", other, x) or 0) > (t.mean("", "WF", x) or 0) for x in t.xs]
        found = Difference(float(np.mean(ahead)), None, None, 1) if ahead else None
        yield Part(f"{other} behind", found, 0.5)


subsets.says("ahead-of-cot").by(sizes_ahead, "COT")
subsets.says("ahead-of-all").by(sizes_ahead, "AC", "DoC", "ATC")


@experiment("flips/TB.1")
def forms(runs: Runs) -> pd.DataFrame:
    """errors of weighted flips with other forms of f"""
    held, rest = map(of_rdumb, parted(runs))
    return table_of({name: (rest, fitted(held, *form)) for name, form in FORMS.items()})


# The degree of f, and whether the flips are weighted.
FORMS = {
    "Unweighted linear": (1, False),
    "Unweighted quadratic": (2, False),
    "Weighted linear": (1, True),
    "Weighted quadratic": (2, True),
    "Weighted cubic": (3, True),
}
for id, other in zip(
    forms.sentences["paper"], besides("Weighted quadratic")([*FORMS]), strict=True
):
    forms.says(id).lower_mean("Weighted quadratic", [other])


@experiment("flips/TB.2")
def little_data(runs: Runs) -> pd.DataFrame:
    """weighted flips and COT with 100 held-out images, and with few images of each data set"""
    held, rest = parted(runs)
    f = fitted(of_rdumb(held))
    whole, limited = ([p for p in rest if p.run.override == name] for name in ("", "limited"))
    return table_of(
        {
            "COT original": (whole, "COT"),
            "WF original": (whole, f),
            "WF limited mem": ([point.recounted(held=100) for point in whole], f),
            "COT limited mem/data": (limited, "COT"),
            "WF limited mem/data": (limited, f),
        }
    )


little_data.says("few-suffice").lower_mean("WF limited mem", ["WF original"])
little_data.says("less-than-cot").lower_mean("WF limited mem/data", ["COT limited mem/data"])


other_methods = experiment("flips/TB.3")(with_one_f, x="method")
# The thesis' largest mean is 5.07, of Tent.
other_methods.says("below-limit").mean_below(6)
other_methods.says("cpl-less").lower_mean("CPL", ["RDumb"])


@experiment("flips/TB.4")
def refit(runs: Runs) -> pd.DataFrame:
    """errors for another architecture: weighted flips, with f fitted again, and COT"""
    held, rest = parted(runs)
    known, other = ([p for p in own if p.run.override in WIDTH8] for own in (held, rest))
    columns = {"WF": fitted(of_rdumb(held)), "WF (refit f)": fitted(known), "COT": "COT"}
    return table_of({name: (other, estimate) for name, estimate in columns.items()})


refit.says("refit").lower_mean("WF (refit f)", ["WF"])
refit.says("less-than-cot").lower_mean("WF", ["COT"])


def recounted(runs: Runs, kind: str) -> pd.DataFrame:
    """Mean error and f with flips counted at other steps, or on the first held-out images only."""
    held, rest = parted(run for run in runs if (run.folder / FLIPS).exists())
    numbers: Iterable[int] = ()
    if held:
        own = held[0].run.provenance["estimators"]["WeightedFlips"]
        counts = [n for n in (1000, 500, 200, 100) if n <= own["held"]]
        numbers = [*own["also"], own["stop"]] if kind == "steps" else counts
    rows: Rows = []
    for number in numbers:
        choice = {"stop" if kind == "steps" else "held": number}
        if (f := fitted([point.recounted(**choice) for point in held])) is not None:
            again = errors([point.recounted(**choice) for point in rest], f).groupby(level=0).mean()
            rows += [("error", "error", number, s, error) for s, error in again.items()]
            at = (0, 50, 100, 200, 400, 600, 800)
            rows += [("f", f"{number:,} {kind}", flips, "fit", 100 * f(flips)) for flips in at]
    unit = "mean absolute error, points; f, accuracy in %"
    return tidy(rows, unit=unit, axis=f"{kind}; flips of 1,000")


stops = experiment("flips/FigB.2")(recounted, kind="steps")


@stops.says("earlier", at_full={"by_share": MOST_OF * 0.269})
def earlier(t: Table, by_share: float = 0) -> Parts:
    """The error at the last step, less this share of it, minus that at half of the steps."""
    place = "error", "error"
    xs = t.of_curve(*place)
    half, last = (t.by_run(*place, own) for own in (xs[len(xs) // 2 :][:1], xs[-1:]))
    gap = paired({name: (1 - by_share) * error for name, error in last.items()}, half)
    yield Part(f"{1 - by_share:g} x last - middle", gap, 0)


held_images = experiment("flips/FigB.3")(recounted, kind="held images")
held_images.says("hundred-suffice").rises(panel="error", by=-2)


@experiment("flips/B.9")
def few_classes(runs: Runs) -> pd.DataFrame:
    """errors of weighted flips, and how many labels flip, with 10 and 100 classes"""
    held, rest = parted(runs)
    rows: Rows = []
    for setting, own in grouped(rest, lambda point: point.run.setting).items():
        # f is fitted to the network's own hold-out.
        f = fitted([point for point in held if point.run.weights == own[0].run.weights])
        rows += [("", setting, "error", run, error) for (_, run), error in errors(own, f).items()]
        rows += [("", setting, "flips", p.run.stream, p.flips[False]) for p in own]
    return tidy(over_seeds(rows), unit=f"{UNIT}; label flips of 1,000")


TEN = besides("CIFAR100-C")
few_classes.says("few-flips").bounded(TEN, x="flips", most=5)
# Table 3.1 has 5.75.
few_classes.says("less-effective").bounded(TEN, x="error", least=5.75)


WITHIN, BEYOND = "flips within the hold-out's", "flips beyond them"
FEW, MANY = "the half with fewer flips", "the half with more flips"
OWN_F, UNWEIGHTED = "WF, f of these very streams", "flips without weights"


@experiment("flips/Why")
def why(runs: Runs) -> pd.DataFrame:
    """where weighted flips err: beyond the flips that f was fitted to, among many flips, or anywhere"""
    held, rest = parted(runs)
    f = fitted(held)
    if f is None or not rest:
        return tidy([])
    unweighted = fitted(held, weighted=False)
    columns = {"WF": f, OWN_F: fitted(rest), UNWEIGHTED: unweighted, "DoC": "DoC"}
    flips, known = (np.array([p.flips[True] for p in points]) for points in (rest, held))
    within, half = (known.min() <= flips) & (flips <= known.max()), np.median(flips)
    choices = {"all": flips >= 0, WITHIN: within, BEYOND: ~within, FEW: flips < half}
    rows: Rows = []
    notes = []
    for row, belongs in {**choices, MANY: flips >= half}.items():
        own = [rest[n] for n in np.flatnonzero(belongs)]
        for name, estimate in columns.items():
            rows += [("", row, name, run, e) for (_, run), e in errors(own, estimate).items()]
        notes.append(f"{row}: {in_words(own)}")
    return tidy(rows, unit=UNIT, notes=notes)


def in_words(points: Points) -> str:
    """The number of streams, the range of flips, and the slope of accuracy."""
    if len(points) < 3:
        return f"{len(points)} streams."
    flips, truth = np.array([(p.flips[True], 100 * p.accuracy) for p in points]).T
    text = f"{len(points)} streams, {flips.min():.0f} to {flips.max():.0f} flips of 1,000"
    if not np.ptp(flips):
        return f"{text}."
    slope = np.cov(flips, truth)[0, 1] / flips.var(ddof=1)
    return f"{text}; ten more flips go with {10 * slope:+.2f} points of accuracy."


why.says("less-than-doc").falls("all", start="DoC", to="WF")
why.says("more-with-few").falls(FEW, start="WF", to="DoC")
why.says("form").falls("all", start=OWN_F, to="WF", by=-2)


@why.says("saturation")
def saturation(t: Table) -> Parts:
    """The mean error where there are many flips minus that where there are few."""
    gap = unpaired(t.values("", MANY, "WF"), t.values("", FEW, "WF"))
    yield Part(f"{MANY} - {FEW}", gap, 0)


why.says("weights").falls("all", start="WF", to=UNWEIGHTED)
