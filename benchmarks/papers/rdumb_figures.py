"""RDumb and CCC: the figures of Press et al. 2023, numbered as in chapter 2 of Ori Press's thesis."""

from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ..results.batch_means import batches, pairs_of, severity, shown
from ..results.run_statistics import above_zero
from ..results.runs import Run, grouped
from .accuracy_tables import WINDOWS, over_stream, windows
from .claims import Part, Parts, above, besides
from .experiment import experiment
from .rdumb_tables import CCC, COLLAPSING, HARDER, METHODS, ON_CCC, Runs
from .table import LAST, Rows, Table, tidy

two_streams = experiment("rdumb/Fig2.1")(over_stream, order=["Source", "ETA", "CoTTA"], spread=True)
two_streams.says("below-on-ccc").above("Source", ["ETA", "CoTTA"], "CCC-Medium", LAST)


@two_streams.says("varies")
def varies(t: Table) -> Parts:
    """The deviation along CIN-C minus the largest one along CCC-Medium."""
    own = t.frame[t.frame["curve"] == "Source"].groupby(["panel", "run"])["value"]
    deviations = own.std(ddof=0).unstack("panel").reindex(columns=["CIN-C", "CCC-Medium"])
    gap = deviations["CIN-C"] - deviations["CCC-Medium"].max()
    yield Part("CIN-C - CCC-Medium", above_zero(gap.to_dict()), 0)


two_streams.says("above-on-cin-c").above(["ETA", "CoTTA"], "Source", "CIN-C", LAST)


all_over_stream = experiment("rdumb/Fig2.3")(
    over_stream, order=METHODS, pooled={"CCC (all runs)": CCC}
)
all_over_stream.says("stable").above(["BNAdapt", "EATA", "RDumb"], "Source", ON_CCC, LAST)
collapse = all_over_stream.says("collapse").above("Source", "CoTTA", ON_CCC, LAST)
collapse.above("Source", "ETA", HARDER, LAST)
all_over_stream.says("others-collapse").above("Source", besides("CoTTA")(COLLAPSING), ON_CCC, LAST)


longest = experiment("rdumb/long")(over_stream, order=METHODS)
FALLING = ["Tent", "RPL", "SLR", "CPL", "ETA"]
longest.says("collapse").above("Source", FALLING, x=LAST)
longest.says("rdumb-best").above("RDumb", [*FALLING, "EATA"], x=LAST)


without_bn = experiment("rdumb/Fig2.4")(
    over_stream, order=["Source", "EATA", "RDumb"], curve="method"
)
without_bn.says("eata-above").above("EATA", "Source", "CIN-C")
without_bn.says("eata-below").above("Source", "EATA", "CCC-Medium")
without_bn.says("rdumb-best").above("RDumb", ["Source", "EATA"], ["CIN-C", "CCC-Medium"])


AT_CHANCE = 1.0  # percent, of which a part is the noise of a few images


@experiment("rdumb/Fig2.5a")
def peaks(runs: Runs) -> pd.DataFrame:
    """ETA from scratch on each hold-out corruption and severity: steps to its highest accuracy"""
    rows: Rows = []
    notes = []
    tops: dict[str, list[str]] = {}
    for same in grouped(runs, lambda run: run.stream).values():
        curves = {run.place: windows(run) for run in same}
        # The highest accuracy is that of the mean over the runs, in windows of a twentieth of the steps.
        mean = np.mean(list(curves.values()), axis=0)
        if mean.max() < AT_CHANCE:
            notes.append(f"{same[0].stream}: left out, as ETA has at most {mean.max():.1f} %.")
            continue
        parts = np.array_split(np.arange(1, len(same[0].rows) + 1), WINDOWS)
        ends = [int(part[-1]) for part in parts]
        setting, curve = same[0].setting, f"severity {severity(same[0])}"
        tops.setdefault(setting, []).append(str(ends[int(mean.argmax())]))
        for run, values in curves.items():
            shares = 100 * np.array(values) / max(mean.max(), 1e-9)
            rows += [(setting, curve, x, run, own) for x, own in zip(ends, shares, strict=True)]
    notes += [
        f"{name}: ETA is at its highest after {', '.join(steps)} steps (severities in their order, in "
        f"windows of {rows[0][2]})."
        for name, steps in tops.items()
    ]
    return tidy(rows, unit="accuracy, % of its highest", axis="steps", notes=notes)


def at_200(t: Table, change: Callable[..., pd.Series]) -> Parts:
    """A change on each corruption and severity, of the accuracies at the start, at 200 steps, at the end.

    Its last argument is how many times as long as the part before 200 steps that after them is. The paper
    observes the peak there (12,500 images); of shorter streams it is the middle.
    """
    steps = [x for x in t.xs if isinstance(x, int | float)]
    later = [x for x in steps if x >= 200]
    peak = later[0] if len(later) > 1 else steps[len(steps) // 2]
    longer = (steps[-1] - peak) / (peak - steps[0])
    numbers = t.frame.pivot(index=["panel", "curve", "run"], columns="x", values="value")
    for place in t.cells:
        ends = (numbers.loc[place, x] for x in (steps[0], peak, steps[-1]))
        yield Part(", ".join(place), above_zero(change(*ends, longer).to_dict()), 0)


at_peak = peaks.says("at-peak").by(at_200, lambda first, at, last, _: at - last)
at_peak.by(at_200, lambda first, at, *_: at - first)
peaks.says("near-peak").by(at_200, lambda first, at, *_: at - first - (100 - at))
slow_fall = peaks.says("slow-fall").by(at_200, lambda first, at, last, _: at - last)
slow_fall.by(at_200, lambda first, at, last, longer: at - first - (at - last) / longer)


@experiment("rdumb/Fig2.5b")
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
    changes = np.cumsum([False, *(a != b for a, b in pairwise(marks))])
    steps = pd.Series(changes).groupby(changes).cumcount().to_numpy() + 1
    bins = np.floor(np.log2(steps)).astype(int)
    for number in np.unique(bins):
        yield event, run.label, 2 ** int(number), run.place, gain[bins == number].mean()


since.says("eta-ahead").above("ETA", "EATA", CHANGED, slice(3))
since.says("reset-faster").above("RDumb", "EATA", RESET, slice(3), than_panel=CHANGED)
since.says("gain-grows").rises("RDumb", RESET)


# The 2-D toy in which entropy minimisation is stable or collapses (thesis, appendix A.1).
CONDITIONS = {"condition 1": (4.0, False), "condition 2": (25.0, False), "eq. A.4": (25.0, True)}
SIZES = {"embedded": (20_000, 20_000, 10), "full": (300_000, 60_000, 3)}  # points, steps, seeds
TRAINING = np.repeat([0.1, 0.01, 0.001], 1000)  # learning rate of each step
RATE = 0.01  # learning rate of the adaptation


@experiment("rdumb/Fig2.6")
def toy_example(scale: str) -> pd.DataFrame:
    """a 2-D toy: Tent on batch norm and logistic regression, stable or collapsing"""
    return dynamics(*SIZES[scale])


def dynamics(points: int, steps: int, seeds: int) -> pd.DataFrame:
    """Accuracy, entropy and norm of the scale by adaptation step, in each condition."""
    from scipy.stats import zscore  # deferred: slow import

    at = sorted({0, *np.geomspace(1, steps, 24).astype(int).tolist()})
    rows: Rows = []
    for seed in range(seeds):
        clean, _, labels = data(points, 0.0, seed)
        # Batch normalisation with epsilon 0 and before its scale; the expected mean is 0.
        model = trained(zscore(clean), labels, np.random.default_rng([seed, 1]))
        for name, (variance, literal) in CONDITIONS.items():
            _, corrupted, _ = data(points, variance, seed, literal)
            for step, own in adapted(zscore(corrupted), labels, *model, at):
                rows += [(panel, name, step, f"seed {seed}", n) for panel, n in own.items()]
    unit = "accuracy, %; entropy, nats / 100; norm of the scale"
    return tidy(rows, unit=unit, axis="step of adaptation", log=True)


def data(
    points: int, variance: float, seed: int, literal: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean and corrupted points [n,2] and labels [n] in {0,1}.

    variance: variance of the noise along its major axis (condition 1: 4, condition 2: 25).
    literal: use the covariance as printed in eq. A.4, which rotates it opposite to the text.
    """
    random = np.random.default_rng(seed)
    labels = np.arange(points) % 2
    centred = random.standard_normal((points, 2)) * np.sqrt([1, 0.03])
    clean = (centred + np.outer(2 * labels - 1, [1, 0])) @ rotation(-np.pi / 4).T
    noise = random.standard_normal((points, 2)) * np.sqrt([0.25, variance])
    turn = rotation(-np.pi / 4).T if literal else rotation(-np.pi / 4)
    noise = noise @ (turn @ rotation(-np.pi / 6).T).T
    return clean, clean @ rotation(-np.pi / 9).T + noise, labels


def rotation(angle: float) -> np.ndarray:
    """The rotation matrix of Eq. A.7."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def trained(
    x: np.ndarray, labels: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Scale [2] and linear weights [2] after training with binary cross-entropy on points [n,2]."""
    scale, weights = np.ones(2), random.uniform(-1, 1, 2) / np.sqrt(2)
    for rate in TRAINING:
        slope = x.T @ (expit(x @ (scale * weights)) - labels) / len(x)
        scale, weights = scale - rate * slope * weights, weights - rate * slope * scale
    return scale, weights


def adapted(
    x: np.ndarray, labels: np.ndarray, scale: np.ndarray, weights: np.ndarray, at: list[int]
) -> Iterator[tuple[int, dict[str, float]]]:
    """The measures of the table after the steps `at` of Tent on the scale, with all points in one batch."""
    for step in range(at[-1] + 1):
        logits = x @ (scale * weights)
        p = expit(logits)
        if step in at:
            right = 100 * ((logits > 0) == labels).mean()
            entropy = 100 * (np.logaddexp(0, logits) - p * logits).mean()
            norm = float(np.linalg.norm(scale))
            yield step, {"accuracy": right, "entropy": entropy, "scale": norm}
        # The derivative of the entropy by the logit.
        slope = -(p * (1 - p) * logits)
        scale = scale - RATE * weights * (x.T @ slope) / len(x)


toy_example.says("stable").rises("condition 1", "accuracy", by=-5)
toy_example.says("gains").peak("rises", "condition 2", "accuracy")
toy_example.says("collapses").falls("condition 2", "accuracy", by=10)
toy_example.says("scale-grows").rises(["condition 1", "condition 2"], "scale")
toy_example.says("eq-a4").falls("eq. A.4", "accuracy", by=10)


NORM = "WeightMagnitude_norm "
POINTS = 24  # maximum number of points along the stream


@experiment("rdumb/Fig2.6c")
def weights(runs: Runs) -> pd.DataFrame:
    """norm of ETA's adapted weights by layer over CCC-Medium, beside accuracy (with figure A.2)"""
    rows: Rows = []
    for run in (run for run in runs if run.adapts):
        norms = norms_by_stage(run)
        at = norms.index[np.unique(np.linspace(0, len(norms) - 1, POINTS).astype(int))]
        for n, following in zip(at, [*at[1:], len(run.rows)], strict=True):
            place = run.rows[n]["step"], run.place
            for curve, other in (("ETA", run), ("Source", run.source)):
                if other is not None:
                    value = 100 * float(other.column("accuracy")[n:following].mean())
                    rows.append(("accuracy", curve, *place, value))
            shares = 100 * norms.loc[n] / norms.loc[at[0]]
            rows += [("weights", stage, *place, share) for stage, share in shares.items()]
    unit = "accuracy, %; norm of adapted weights, % of the source model's"
    return tidy(rows, unit=unit, axis="step")


def norms_by_stage(run: Run) -> pd.DataFrame:
    """The norm of all adapted weights of each stage (columns), by the batch at which it was measured."""

    def stage(name: str) -> str:
        parts = name.removeprefix(NORM).split(".")
        return next(part for part in parts if part not in ("net", "features"))

    norms = pd.DataFrame(run.rows).filter(like=NORM).dropna()
    return (norms**2).T.groupby(stage, sort=False).sum().T ** 0.5


weights.says("grow").rises(panel="weights")


@weights.says(
    "grow-after-collapse",
    premise=lambda t: above(t, "Source", "ETA", "accuracy", LAST),
    unless="ETA does not end below the source model",
)
def later(t: Table) -> Parts:
    """The growth of each layer's weights after the mean of ETA stays below Source's minus that before."""
    eta, source = ([t.mean("accuracy", curve, x) or 0 for x in t.xs] for curve in ("ETA", "Source"))
    ahead = [n for n in range(len(t.xs)) if eta[n] >= source[n]]
    collapse = t.xs[min(ahead[-1] + 1 if ahead else 0, len(t.xs) - 1)]
    own = t.frame[t.frame["panel"] == "weights"]
    own = own.pivot(index=["curve", "run"], columns="x", values="value")
    first, at, last = (own[x] for x in (t.xs[0], collapse, t.xs[-1]))
    for layer in t.curves("weights"):
        gaps = ((last - at) - (at - first))[layer]
        yield Part(layer, above_zero(gaps.to_dict()), 0)


ten_classes = experiment("rdumb/FigA.5")(over_stream, order=["Source", "BNAdapt", "Tent", "RDumb"])
no_collapse = ten_classes.says("no-collapse-at-the-end")
no_collapse.above("Tent", "Source", "severity 5", LAST)
no_collapse.bounded("Tent", "gradual", LAST, least=10)
ten_classes.says("no-collapse").above("Tent", "Source", x=lambda xs: xs[len(xs) // 2 :])


@experiment("rdumb/FigA.5c")
def hardness(runs: Runs) -> pd.DataFrame:
    """accuracy of the source model on each corruption at severity 5, with ten classes"""
    rows = []
    for run in runs:
        means = batches([run], "accuracy").groupby("pairs", sort=False)["accuracy"].mean().dropna()
        rows += [("", shown(pairs), "Source", run.place, 100 * v) for pairs, v in means.items()]
    means = pd.DataFrame(rows).groupby(1, sort=False)[4].mean().sort_values(kind="stable")
    return tidy(sorted(rows, key=lambda row: means.index.get_loc(row[1])))


hardness.says("uneven").spread("Source", by=20)


why = experiment("rdumb/Why")(over_stream, order=["Source", "SLR", "CoTTA"])
for cause, variant in {
    "balance": "SLR-hardly balanced",
    "top-layers": "SLR-all layers",
    "teacher": "CoTTA-faster teacher",
    "restore": "CoTTA-no restore",
}.items():
    why.says(cause).above("Source", variant, x=LAST)
