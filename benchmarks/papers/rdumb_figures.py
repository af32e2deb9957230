"""RDumb and CCC: the figures of Press et al. 2023, numbered as in chapter 2 of Ori Press's thesis."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd

from ..results.batch_means import by_corruption, pairs_of, severity, shown
from ..results.run_statistics import Values, above_zero, paired
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from . import toy, walks
from .accuracy_tables import WINDOWS, accuracy, over_stream, windows
from .claims import Part, Parts, above
from .experiment import EMBEDDED, experiment
from .rdumb_tables import BOTH, CCC, COLLAPSING, METHODS, Runs
from .table import ALL, LAST, Table, X, second_half, tidy


@experiment(
    "rdumb/Fig2.1",
    suite=BOTH,
    only={"method": ["Source", "ETA", "CoTTA"], "setting": ["CIN-C", "CCC-Medium"]},
)
def two_streams(runs: Runs) -> pd.DataFrame:
    """source model, ETA and CoTTA over CIN-C and over CCC-Medium"""
    return over_stream(runs, order=["Source", "ETA", "CoTTA"], spread=True)


two_streams.says(
    "below-on-ccc", "at the end of CCC-Medium ETA and CoTTA are below the source model"
).above("Source", ["ETA", "CoTTA"], "CCC-Medium", LAST)


@two_streams.says(
    "varies", "the source model's accuracy varies more along CIN-C than along CCC-Medium"
)
def varies(t: Table) -> Parts:
    """The deviation along CIN-C minus the largest one along CCC-Medium."""
    highest = max(deviations(t, "CCC-Medium").values(), default=np.nan)
    gap = above_zero({run: own - highest for run, own in deviations(t, "CIN-C").items()})
    yield Part("CIN-C - CCC-Medium", gap, 0)


def deviations(t: Table, panel: str) -> Values[str]:
    """The standard deviation of the source model's accuracy along the stream, for each run."""
    values: dict[str, list[float]] = {}
    for numbers in t.cells.get((panel, "Source"), {}).values():
        for run, value in numbers.items():
            values.setdefault(run, []).append(value)
    return {run: float(np.std(own)) for run, own in values.items()}


two_streams.says(
    "above-on-cin-c", "at the end of CIN-C ETA and CoTTA are above the source model"
).above(["ETA", "CoTTA"], "Source", "CIN-C", LAST)


@experiment("rdumb/Fig2.2", suite="rdumb/ccc", takes="cells", picture=walks.draw_accuracies)
def walk_accuracies(cells: list[Cell]) -> pd.DataFrame:
    """images under gaussian noise and motion blur, and the walks between the two"""
    return walks.accuracies_of_walks(cells)


walk_accuracies.threshold("as-meant", "the walks have the target accuracy to within a point").near(
    x="mean accuracy", to="target accuracy", within=1
)
walk_accuracies.threshold(
    "all-as-meant",
    "the walks between any two corruptions have the target accuracy to within a point, the worst one "
    "included",
).near(x=["lowest mean of all walks", "highest mean of all walks"], to="target accuracy", within=1)


@experiment("rdumb/Fig2.3", suite=BOTH)
def all_over_stream(runs: Runs) -> pd.DataFrame:
    """accuracy over CIN-C and CCC, means over the runs, of CCC over all 27 as well (with figure A.4)"""
    return over_stream(runs, order=METHODS, pooled={"CCC (27 runs)": CCC})


all_over_stream.says(
    "stable", "at the end of CCC BN, EATA and RDumb are above the source model"
).above(["BNAdapt", "EATA", "RDumb"], "Source", CCC, LAST)
all_over_stream.says(
    "collapse", "at the end of CCC all other methods, ETA included, are below it"
).above("Source", [*COLLAPSING, "ETA"], CCC, LAST)


@experiment(
    "rdumb/Fig2.4",
    suite=["rdumb/network-cin-c", "rdumb/backbones"],
    only={
        "method": ["Source", "EATA", "RDumb"],
        "override": ["groupnorm", "ViT-B16"],
        "setting": ["CIN-C", "CCC-Medium"],
    },
)
def without_bn(runs: Runs) -> pd.DataFrame:
    """source model, EATA and RDumb without batch normalisation over CIN-C and CCC-Medium"""
    return over_stream(runs, order=["Source", "EATA", "RDumb"], curve="method")


without_bn.says("eata-above", "on CIN-C EATA is above the source model").above(
    "EATA", "Source", "CIN-C"
)
without_bn.says("eata-below", "on CCC-Medium EATA is below the source model").above(
    "Source", "EATA", "CCC-Medium"
)
without_bn.says("rdumb-best", "RDumb is above EATA and the source model on both streams").above(
    "RDumb", ["Source", "EATA"], ["CIN-C", "CCC-Medium"]
)


@experiment("rdumb/Fig2.5a", suite="rdumb/peaks")
def peaks(runs: Runs) -> pd.DataFrame:
    """ETA from scratch on each hold-out corruption and severity: steps to its highest accuracy"""
    rows: list[tuple[Any, ...]] = []
    tops: dict[str, list[str]] = {}
    for same in grouped(runs, lambda run: run.stream).values():
        curves = {run.place: windows(run) for run in same}
        # The highest accuracy is that of the mean over the runs, in windows of a twentieth of the steps.
        mean = np.mean(list(curves.values()), axis=0)
        sizes = [len(part) for part in np.array_split(same[0].rows, WINDOWS)]
        ends = [int(end) for end in np.cumsum(sizes)]
        setting, curve = same[0].setting, f"severity {severity(same[0])}"
        tops.setdefault(setting, []).append(str(ends[int(mean.argmax())]))
        for run, values in curves.items():
            shares = 100 * np.array(values) / max(mean.max(), 1e-9)
            rows += [(setting, curve, x, run, own) for x, own in zip(ends, shares, strict=True)]
    notes = [
        f"{name}: ETA is at its highest after {', '.join(steps)} steps (severities in their order, in "
        f"windows of {rows[0][2]})."
        for name, steps in tops.items()
    ]
    return tidy(rows, unit="accuracy, % of its highest", axis="steps", notes=notes)


def after_200(t: Table) -> X:
    """The x of the 200 steps (12,500 images) at which the paper observes the peak, or the middle."""
    later = [x for x in t.xs if isinstance(x, int | float) and x >= 200]
    return later[0] if len(later) > 1 else t.xs[len(t.xs) // 2]


def at_ends(t: Table) -> Iterator[tuple[str, Values[str], Values[str], Values[str]]]:
    """By panel, the numbers of all runs at the start, after 200 steps, and at the end."""
    for panel in t.panels:
        first, at, last = (
            {f"{c}, {r}": v for c in t.curves(panel) for r, v in t.values(panel, c, x).items()}
            for x in (t.xs[0], after_200(t), t.xs[-1])
        )
        yield panel, first, at, last


@peaks.says(
    "at-peak",
    "after 200 steps ETA is at its highest accuracy: from there on it falls, on every corruption",
    points=False,
)
def falls_after(t: Table) -> Parts:
    """The decrease of accuracy after 200 steps."""
    for panel, _, at, last in at_ends(t):
        yield Part(panel, paired(at, last), 0)


@peaks.threshold(
    "near-peak",
    "after 200 steps ETA has gained more than it lacks of its highest accuracy",
    points=False,
)
def gained(t: Table) -> Parts:
    """The rise of accuracy up to 200 steps, minus its distance from the highest accuracy there."""
    for panel, first, at, _ in at_ends(t):
        gain = {run: value - first[run] - (100 - value) for run, value in at.items()}
        yield Part(panel, above_zero(gain), 0)


@peaks.says(
    "slow-fall", "after 200 steps ETA's accuracy falls by less than it rose before", points=False
)
def kept(t: Table) -> Parts:
    """The rise of accuracy up to 200 steps minus its fall after them."""
    for panel, first, at, last in at_ends(t):
        gain = {run: value - first[run] - (value - last[run]) for run, value in at.items()}
        yield Part(panel, above_zero(gain), 0)


@experiment(
    "rdumb/Fig2.5b", suite="rdumb/cin-c", only={"method": ["BNAdapt", "ETA", "EATA", "RDumb"]}
)
def since(runs: Runs) -> pd.DataFrame:
    """ETA, EATA and RDumb over BN by the steps since a reset or a change of corruption"""
    rows = [row for run in runs for row in gains_since(run, CHANGED, [*map(pairs_of, run.rows)])]
    for run in (run for run in runs if run.resets):
        rows += gains_since(run, RESET, [*accumulate(row["reset"] for row in run.rows)])
    return tidy(rows, unit="accuracy over BN, points", axis="steps since", log=True)


CHANGED, RESET = "since the corruption changed", "since the last reset"


def gains_since(run: Run, event: str, marks: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Accuracy minus BNAdapt's by steps since an event (a change of mark), in doubling bins.

    Steps before the first event count from the start of the stream.
    """
    if run.bnadapt is None or run.bnadapt is run:
        return
    gain = 100 * (run.column("accuracy") - run.bnadapt.column("accuracy")[: len(run.rows)])
    bins = np.floor(np.log2(steps_since(marks))).astype(int)
    for number in np.unique(bins):
        yield event, run.label, 2 ** int(number), run.place, gain[bins == number].mean()


def steps_since(marks: list[Any]) -> np.ndarray:
    """The number [n] of batches since the last change of the marks, including the current batch."""
    changed = [True, *(a != b for a, b in pairwise(marks))]
    return (
        np.arange(len(marks)) - np.maximum.accumulate(np.where(changed, range(len(marks)), 0)) + 1
    )


since.says("eta-ahead", "soon after a change of corruption ETA gains more than EATA").above(
    "ETA", "EATA", CHANGED, slice(3)
)
since.says(
    "eta-two-points",
    "soon after a change of corruption ETA gains at least two points more than EATA",
).above("ETA", "EATA", CHANGED, slice(3), by=2)
since.says(
    "reset-faster", "soon after a reset RDumb gains more than EATA does soon after a change"
).above("RDumb", "EATA", RESET, slice(3), than_panel=CHANGED)
since.says(
    "gain-grows", "the more steps have passed since its last reset, the more RDumb gains"
).rises("RDumb", RESET)


@experiment("rdumb/Fig2.6", takes="scale")
def toy_example(scale: str) -> pd.DataFrame:
    """a 2-D toy: Tent on batch norm and logistic regression, stable or collapsing"""
    return toy.dynamics(*toy.SIZES[scale])


toy_example.threshold(
    "stable", "condition 1 is stable: it ends within five points of its start"
).near("condition 1", panel="accuracy", x=LAST, to=slice(1), within=5)
toy_example.says("gains", "condition 2 gains at first").peak("rises", "condition 2", "accuracy")
toy_example.threshold(
    "collapses", "condition 2 collapses: it ends at least ten points below its start"
).falls("condition 2", "accuracy", by=10)
toy_example.says("scale-grows", "the scale grows in both conditions").rises(
    ["condition 1", "condition 2"], "scale"
)
toy_example.ours(
    "eq-a4", "with the covariance that eq. A.4 prints, condition 2 collapses as well"
).falls("eq. A.4", "accuracy", by=10)


NORM = "WeightMagnitude_norm "
POINTS = 24  # maximum number of points along the stream


@experiment(
    "rdumb/Fig2.6c",
    suite="rdumb/ccc",
    only={"method": ["Source", "ETA"], "setting": "CCC-Medium"},
)
def weights(runs: Runs) -> pd.DataFrame:
    """norm of ETA's adapted weights by layer over CCC-Medium, beside accuracy (with figure A.2)"""
    rows: list[tuple[Any, ...]] = []
    for run in (run for run in runs if run.adapts):
        norms = norms_by_stage(run)
        at = [n for n, row in enumerate(run.rows) if any(k.startswith(NORM) for k in row)]
        at = [at[n] for n in np.unique(np.linspace(0, len(at) - 1, POINTS).astype(int))]
        for n, following in zip(at, [*at[1:], len(run.rows)], strict=True):
            x = run.rows[n]["step"]
            for curve, other in (("ETA", run), ("Source", run.source)):
                if other is not None:
                    value = 100 * float(other.column("accuracy")[n:following].mean())
                    rows.append(("accuracy", curve, x, run.place, value))
            for stage, norm in norms.items():
                rows.append(("weights", stage, x, run.place, 100 * norm[n] / norm[at[0]]))
    unit = "accuracy, %; norm of adapted weights, % of the source model's"
    return tidy(rows, unit=unit, axis="step")


def norms_by_stage(run: Run) -> dict[str, np.ndarray]:
    """The norm [n] of all adapted weights by stage; NaN if not measured."""
    stages: dict[str, list[np.ndarray]] = {}
    for name in dict.fromkeys(k for row in run.rows for k in row if k.startswith(NORM)):
        parts = [p for p in name.removeprefix(NORM).split(".") if p not in ("net", "features")]
        stages.setdefault(parts[0], []).append(run.column(name))
    return {stage: np.linalg.norm(columns, axis=0) for stage, columns in stages.items()}


def end_of_lead(t: Table) -> X:
    """The x after which the mean of ETA stays below the source model's."""
    eta, source = ([t.mean("accuracy", curve, x) or 0 for x in t.xs] for curve in ("ETA", "Source"))
    ahead = [n for n in range(len(t.xs)) if eta[n] >= source[n]]
    return t.xs[min(ahead[-1] + 1 if ahead else 0, len(t.xs) - 1)]


weights.says("grow", "the adapted weights of every layer grow", points=False).rises(panel="weights")


@weights.says(
    "grow-after-collapse",
    "the adapted weights grow more after the collapse than before it",
    premise=lambda t: above(t, "Source", "ETA", "accuracy", LAST),
    unless="ETA does not end below the source model",
    points=False,
)
def later(t: Table) -> Parts:
    """The growth of each layer's weights after the collapse minus that before it."""
    for layer in t.curves("weights"):
        first, at, last = (
            t.values("weights", layer, x) for x in (t.xs[0], end_of_lead(t), t.xs[-1])
        )
        before = {run: value - first[run] for run, value in at.items() if run in first}
        after = {run: value - at[run] for run, value in last.items() if run in at}
        yield Part(layer, paired(after, before), 0)


@experiment(
    "rdumb/FigA.3",
    suite="rdumb/ccc",
    only={"method": "Source", "setting": "CCC-Medium"},
    picture=walks.draw_walk,
)
def walk(runs: Runs) -> pd.DataFrame:
    """a walk of CCC-Medium as images; severities and the source model's accuracy along walks"""
    return walks.along_walks(runs)


walk.threshold(
    "constant",
    "all along a walk the source model's accuracy stays within five points of that in its middle",
).near("Source", panel="accuracy", to=50, within=5)


@experiment("rdumb/FigA.5", suite="rdumb/ten-classes", only={"setting": ["severity 5", "gradual"]})
def ten_classes(runs: Runs) -> pd.DataFrame:
    """ten classes whose images are repeated: Tent over a stream at severity 5, and over a gradual one"""
    return over_stream(runs, order=["Source", "BNAdapt", "Tent", "RDumb"])


ten_classes.says(
    "no-collapse-at-the-end", "at the end of all streams Tent is above the source model"
).above("Tent", "Source", x=LAST)
ten_classes.ours(
    "no-collapse", "Tent is above the source model in the second half of all streams"
).above("Tent", "Source", x=second_half)


@experiment(
    "rdumb/FigA.5c",
    suite="rdumb/ten-classes",
    only={"method": "Source", "stream": "severity 5"},
)
def hardness(runs: Runs) -> pd.DataFrame:
    """accuracy of the source model on each corruption at severity 5, with ten classes"""
    rows = [
        ("", shown(corruption), "Source", run.place, 100 * value)
        for run in runs
        for corruption, value in by_corruption([run], "accuracy").items()
    ]
    means = pd.DataFrame(rows).groupby(1, sort=False)[4].mean().sort_values(kind="stable")
    return tidy(sorted(rows, key=lambda row: means.index.get_loc(row[1])))


hardness.threshold(
    "uneven", "the easiest corruption is at least 20 points above the hardest one"
).spread("Source", by=20)


@experiment("rdumb/F1", suite=BOTH, published="F1")
def first_version(runs: Runs) -> pd.DataFrame:
    """ten methods on CIN-C and CCC, with the average over these four data sets"""
    return accuracy(runs, order=METHODS, average=True)


first_version.says("rdumb-above-eata", "RDumb is above EATA on all four data sets").above(
    "RDumb", "EATA", each=ALL
)


@experiment(
    "rdumb/Why",
    suite="rdumb/why",
    scales=[EMBEDDED],
    only={"method": ["Source", "SLR", "CoTTA"], "setting": "CCC-Medium"},
)
def why(runs: Runs) -> pd.DataFrame:
    """why SLR and CoTTA do not collapse on embedded CCC-Medium: each without one of its components"""
    return over_stream(runs, order=["Source", "SLR", "CoTTA"])


CAUSES = {
    "balance": ("SLR-hardly balanced", "SLR's class balance: nearly without it, SLR"),
    "top-layers": (
        "SLR-all layers",
        "the top layers, which SLR does not adapt: if they adapt too, SLR",
    ),
    "teacher": (
        "CoTTA-faster teacher",
        "CoTTA's slow teacher: with one that follows ten times as fast, CoTTA",
    ),
    "restore": (
        "CoTTA-no restore",
        "the weights that CoTTA restores: without restoring, CoTTA",
    ),
}
for cause, (variant, words) in CAUSES.items():
    why.ours(cause, f"the cause is {words} ends below the source model").above(
        "Source", variant, x=LAST
    )
