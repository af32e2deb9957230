"""Weighted Flips: appendix B of Ori Press's thesis, and why flips err."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ...run_folder import FLIPS
from ..results.run_statistics import paired, unpaired
from ..results.runs import grouped
from . import tent_phases
from .claims import Part, Parts, above, positive, rises
from .experiment import experiment
from .flips_chapter import (
    ADAPTING,
    HELD,
    SETS,
    TOO_FEW,
    UNIT,
    WIDTH8,
    Column,
    Rows,
    Runs,
    errors,
    first_f,
    fitted,
    of_rdumb,
    parted,
    table_of,
    with_one_f,
)
from .table import LAST, Table, middle, tidy

if TYPE_CHECKING:
    from ..results.flip_points import Point


@experiment("flips/TB.1", "flips/sets", method=ADAPTING, published="TB.1")
def forms(runs: Runs, fit_on: Sequence[str] = HELD) -> pd.DataFrame:
    """errors of weighted flips with other forms of f"""
    held, rest = map(of_rdumb, parted(runs, fit_on))
    columns = {}
    for degree, name in ((1, "linear"), (2, "quadratic")):
        columns[f"Unweighted {name}"] = Column(rest, fitted(held, degree, weighted=False))
    for degree, name in ((1, "linear"), (2, "quadratic"), (3, "cubic")):
        columns[f"Weighted {name}"] = Column(rest, fitted(held, degree))
    return table_of(columns)


for other, id in {
    "unweighted linear": "unweighted-linear",
    "unweighted quadratic": "unweighted-quadratic",
    "weighted linear": "linear",
    "weighted cubic": "cubic",
}.items():
    forms.says(f"less-than-{id}").lower_mean("Weighted quadratic", other.capitalize())


@experiment(
    "flips/TB.2",
    ["flips/sets", "flips/limited"],
    method=ADAPTING,
    published="TB.2",
)
def little_data(runs: Runs, fit_on: Sequence[str] = HELD, f: str = "") -> pd.DataFrame:
    """weighted flips and COT with 100 held-out images, and with few images of each data set"""
    held, rest = parted(runs, fit_on)
    function = first_f(held, f)
    whole, limited = ([p for p in rest if p.run.override == name] for name in ("", "limited"))
    return table_of(
        {
            "COT original": Column(whole, function, "COT"),
            "WF original": Column(whole, function),
            "WF limited mem": Column([point.recounted(held=100) for point in whole], function),
            "COT limited mem/data": Column(limited, function, "COT"),
            "WF limited mem/data": Column(limited, function),
        }
    )


little_data.says("less-than-cot", undecidable=TOO_FEW).lower_mean(
    "WF limited mem/data", "COT limited mem/data"
)


@experiment(
    "flips/TB.3",
    ["flips/sets", "flips/methods"],
    full=["flips/ten-sets", "flips/methods"],
    published="TB.3",
)
def other_methods(runs: Runs, fit_on: Sequence[str] = HELD, f: str = "") -> pd.DataFrame:
    """errors of weighted flips where other methods adapt, with RDumb's f"""
    return with_one_f(runs, "method", fit_on, f)


# The thesis' largest mean is 5.07, of Tent.
other_methods.threshold("below-limit").mean_below(6)
other_methods.says("cpl-less").lower_mean("CPL", "RDumb")


@experiment(
    "flips/TB.4",
    ["flips/sets", "flips/architectures"],
    full=["flips/ten-sets", "flips/architectures"],
    method=["Source", "RDumb"],
    override=["", *WIDTH8],
    published="TB.4",
)
def refit(runs: Runs, fit_on: Sequence[str] = HELD, f: str = "") -> pd.DataFrame:
    """errors for another architecture: weighted flips, with f fitted again, and COT"""
    held, rest = parted(runs, fit_on)
    known, other = ([p for p in own if p.run.override in WIDTH8] for own in (held, rest))
    function = first_f(held, f)
    return table_of(
        {
            "WF": Column(other, function),
            "WF (refit f)": Column(other, fitted(known)),
            "COT": Column(other, function, "COT"),
        }
    )


refit.says("refit").lower_mean("WF (refit f)", "WF")
refit.says("less-than-cot", undecidable=TOO_FEW).lower_mean("WF", "COT")


@experiment("flips/FigB.1", takes="scale")
def toy_mixture(scale: str) -> pd.DataFrame:
    """expectation maximisation with points that ascend the likelihood: silhouette and accuracy of the
    clusters"""
    return tent_phases.expectation_maximisation()


toy_mixture.says("clusters-part").rises(["smart", "shifted"], "silhouette")
toy_mixture.says("shifted-rises").rises("shifted", "accuracy", start=0, to=5)
toy_mixture.says("shifted-falls").falls("shifted", "accuracy", start=5)
toy_mixture.threshold("rest-stays").rises("points at rest", "accuracy", start=5, by=-1)
toy_mixture.threshold("smart-stays").rises("smart", "accuracy", by=-5)


def recounted(runs: Runs, fit_on: Sequence[str], kind: str) -> pd.DataFrame:
    """Mean error and f with flips counted at other steps, or on the first held-out images only."""
    held, rest = parted((run for run in runs if (run.folder / FLIPS).exists()), fit_on)
    settings = (held + rest)[0].settings if held + rest else {"also": [], "stop": 0, "held": 0}
    if kind == "steps":
        choices = {n: {"stop": n} for n in [*settings["also"], settings["stop"]]}
    else:
        choices = {n: {"held": n} for n in (1000, 500, 200, 100) if n <= settings["held"]}
    rows: Rows = []
    for number, choice in choices.items():
        f = fitted([point.recounted(**choice) for point in held])
        if f is not None:
            again = errors(Column([point.recounted(**choice) for point in rest], f))
            for setting, cells in again.items():
                mean = float(np.mean(list(cells.values())))
                rows.append(("error", "error", number, setting, mean))
            at = (0, 50, 100, 200, 400, 600, 800)
            rows += [("f", f"{number:,} {kind}", flips, "fit", 100 * f(flips)) for flips in at]
    unit = "mean absolute error, points; f, accuracy in %"
    return tidy(rows, unit=unit, axis=f"{kind}; flips of 1,000")


@experiment("flips/FigB.2", "flips/sets", method=ADAPTING)
def stops(runs: Runs, fit_on: Sequence[str] = HELD) -> pd.DataFrame:
    """errors of weighted flips, and f, by the step at which the flips are counted"""
    return recounted(runs, fit_on, "steps")


stops.says("earlier").rises(panel="error", start=middle, of=SETS)


@stops.says("earlier-by-a-share")
def earlier_by_a_share(t: Table) -> Parts:
    """This share of the error at the last step minus that at half of the steps."""
    for curve in t.curves("error"):
        half, last = (t.by_run("error", curve, t.chosen(x, "error", curve)) for x in (middle, LAST))
        gap = paired({name: (1 - 0.269) * error for name, error in last.items()}, half)
        yield Part(f"{curve}, {1 - 0.269:g} x last - middle", gap, 0, of=SETS)


@experiment("flips/FigB.3", "flips/sets", method=ADAPTING)
def held_images(runs: Runs, fit_on: Sequence[str] = HELD) -> pd.DataFrame:
    """errors of weighted flips, and f, by the number of held-out images"""
    return recounted(runs, fit_on, "held images")


held_images.threshold("few-suffice").rises(panel="error", by=-2, of=SETS)


@experiment("flips/FigB.4", "flips/omission", setting="top", published="FigB.4", points=False)
def omitted(runs: Runs) -> pd.DataFrame:
    """images whose label is in the model's top k: their share and their entropy"""
    return tent_phases.sizes(runs, "top", "k")


omitted.says("right-is-certain").below("entropy of those left out", "entropy of all", x=1)
omitted.says("fewer-left").falls_along(tent_phases.LEFT, x=[1, 5, 50])


@omitted.says("less-certain")
def less_certain(t: Table) -> Parts:
    """The rise of the entropy from each k to the next."""
    for a, b in ((1, 5), (5, 50)):
        yield from rises(t, "entropy of those left", start=a, to=b)


@experiment("flips/FigB.5", "flips/omission", stream=["top 0", "entropy *"])
def without_certain(runs: Runs) -> pd.DataFrame:
    """Tent without the images of which the model is certain: accuracy gained on others"""
    return tent_phases.gains(runs, "level", "entropy above", sizes=True)


@without_certain.says("gains")
def low_levels_gain(t: Table) -> Parts:
    """The gain at the two lowest levels above 0."""
    return positive(t, t.curves()[1:3])


@without_certain.says("less-at-the-end")
def highest_gains_less(t: Table) -> Parts:
    """The gain without omission minus that at the highest level."""
    first, *_, last = t.curves()
    return above(t, first, last, x=LAST)


@experiment("flips/FigB.6", "flips/phases", override="")
def over_steps(runs: Runs) -> pd.DataFrame:
    """silhouette, shift distance and accuracy along Tent's steps, by severity"""
    return tent_phases.by_step(runs)


over_steps.says(
    "clusters-rise",
    points=False,
).rises(panel="silhouette")
over_steps.says("accuracy-rises").peak("rises", panel="accuracy")
over_steps.says("accuracy-falls").peak("falls", panel="accuracy")
over_steps.says("shift-grows", points=False).peak("grows", panel="shift", of="accuracy")


@experiment(
    "flips/B.9",
    "flips/ten-classes",
    full=["flips/ten-classes", "flips/cifar100"],
    published="B.9",
)
def few_classes(runs: Runs, fit_on: Sequence[str] = HELD) -> pd.DataFrame:
    """errors of weighted flips, and how many labels flip, with 10 and 100 classes"""
    held, rest = parted(runs, fit_on)
    rows: Rows = []
    for setting, own in grouped(rest, lambda point: point.run.setting).items():
        # f is fitted to the network's own hold-out.
        f = fitted([point for point in held if point.run.weights == own[0].run.weights])
        known = errors(Column(own, f)).get(setting, {})
        rows += [("", setting, "error", run, error) for run, error in known.items()]
        rows += [("", setting, "flips", p.run.place, p.flips[False]) for p in own]
    return tidy(rows, unit=f"{UNIT}; label flips of 1,000")


few_classes.says(
    "few-flips",
    points=False,
).bounded(x="flips", most=5, of="streams")
# Table 3.1 has 5.75.
few_classes.says("less-effective").bounded(x="error", least=5.75, of="streams")


FEW, MANY = "the half with fewer flips", "the half with more flips"
OWN_F, UNWEIGHTED = "WF, f of these very streams", "flips without weights"


@experiment("flips/Why", "flips/sets", method=ADAPTING)
def why(runs: Runs) -> pd.DataFrame:
    """where weighted flips err: beyond the flips that f was fitted to, among many flips, or anywhere"""
    held, rest = parted(runs)
    f = fitted(held)
    rows: Rows = []
    if f is None or not rest:
        return tidy(rows)
    known = [point.flips[True] for point in held]
    half = float(np.median([point.flips[True] for point in rest]))
    columns = {
        "WF": Column(rest, f),
        OWN_F: Column(rest, fitted(rest)),
        UNWEIGHTED: Column(rest, fitted(held, weighted=False)),
        "DoC": Column(rest, f, "DoC"),
    }
    pooled = {
        name: {place: error for own in errors(column).values() for place, error in own.items()}
        for name, column in columns.items()
    }
    notes = []
    for row, belongs in (
        ("all", lambda flips: True),
        ("flips within the hold-out's", lambda flips: min(known) <= flips <= max(known)),
        ("flips beyond them", lambda flips: not min(known) <= flips <= max(known)),
        (FEW, lambda flips: flips < half),
        (MANY, lambda flips: flips >= half),
    ):
        own = [point for point in rest if belongs(point.flips[True])]
        places = [point.run.place for point in own]
        for name, found in pooled.items():
            rows += [("", row, name, place, found[place]) for place in places if place in found]
        notes.append(f"{row}: {in_words(own)}")
    return tidy(rows, unit=UNIT, notes=notes)


def in_words(points: "list[Point]") -> str:
    """The number of streams, the range of flips, and the slope of accuracy."""
    if len(points) < 3:
        return f"{len(points)} streams."
    flips, truth = np.array([(p.flips[True], 100 * p.accuracy) for p in points]).T
    text = f"{len(points)} streams, {flips.min():.0f} to {flips.max():.0f} flips of 1,000"
    if not np.ptp(flips):
        return f"{text}."
    slope = np.cov(flips, truth)[0, 1] / flips.var(ddof=1)
    return f"{text}; ten more flips go with {10 * slope:+.2f} points of accuracy."


def less(t: Table, x: str, than: str, part: str = "all", by: float = 0) -> Parts:
    """On one part of the streams, a column has a smaller error than another, by a margin."""
    gap = paired(t.values("", part, than), t.values("", part, x))
    yield Part(f"{than} - {x}", gap, by, of="streams")


why.ours("less-than-doc").by(less, "WF", "DoC")
why.ours("more-with-few").by(less, "DoC", "WF", FEW)
why.ours("form").by(less, "WF", OWN_F, by=-2)


@why.ours("saturation")
def saturation(t: Table) -> Parts:
    """The mean error where there are many flips minus that where there are few."""
    gap = unpaired(t.values("", MANY, "WF"), t.values("", FEW, "WF"))
    yield Part(f"{MANY} - {FEW}", gap, 0, of="streams")


why.ours("weights").by(less, UNWEIGHTED, "WF")
