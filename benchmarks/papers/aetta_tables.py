"""AETTA: Towards Estimating Accuracy for Test-Time Adaptation (Lee et al. 2024)."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...drawing import describe, panels, saved
from ...run_folder import CALIBRATION
from ..results.batch_means import Pairs, by_seed, pairs_of
from ..results.palette import COLOURS
from ..results.run_statistics import Values, average, paired
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from .accuracy_tables import SHARE, SHARES, WINDOWS, accuracy, along
from .claims import Part, Parts, below, falls
from .experiment import EMBEDDED, Experiment, experiment
from .table import REST, Table, tidy

TABLES = ["aetta/cifar10", "aetta/cifar100", "aetta/imagenet"]
CONTINUAL = "Continual *"
FAILING = ("TENT", "EATA")
ERROR = "mean absolute error, points"
Runs = list[Run]
Rows = list[tuple[Any, ...]]


def points(runs: Runs, name: str) -> Values[str]:
    """The mean of a column in points over corruptions, for each seed."""
    return {f"seed {seed}": 100 * value for seed, value in by_seed(runs, name).items()}


def with_average(panel: str, curve: str, cells: Mapping[str, Values[str]]) -> Rows:
    """The rows of a curve with the numbers of each method, and their average."""
    several = {**cells, "Avg": average(cells.values())}
    return [(panel, curve, x, run, v) for x, own in several.items() for run, v in own.items()]


def by_method(runs: Runs) -> dict[str, Runs]:
    """The runs of each adapting method."""
    return grouped([run for run in runs if run.adapts], lambda run: run.label)


def estimation_errors(runs: Runs) -> pd.DataFrame:
    """Mean absolute errors of every estimator by setting and method, and AETTA's gain over the others."""
    rows: Rows = []
    watched = [run for run in runs if run.adapts and run.estimators]
    for setting, same in grouped(watched, lambda run: run.setting).items():
        for name in dict.fromkeys(name for run in same for name in run.estimators):
            cells = {m: points(own, f"{name}_error") for m, own in by_method(same).items()}
            rows += with_average(setting, name, cells)
    t = Table(tidy(rows))
    for x in [*by_method(watched), "Avg"]:
        rows += [("", "AETTA's gain", x, run, value) for run, value in gains(t, x).items()]
    return tidy(rows, unit=ERROR)


def gains(t: Table, x: str) -> Values[str]:
    """AETTA's gain over the other estimators, averaged over them and over the panels."""
    several = []
    for panel, curve in t.cells:
        ours, theirs = t.values(panel, "AETTA", x), t.values(panel, curve, x)
        if curve != "AETTA" and ours:
            several.append({seed: theirs[seed] - ours[seed] for seed in theirs if seed in ours})
    return average(several)


@experiment("aetta/T1", "aetta/estimators", full=TABLES, setting="Fully *", published="T1")
def one_corruption(runs: Runs) -> pd.DataFrame:
    """errors of accuracy estimates without labels, each corruption on its own"""
    return estimation_errors(runs)


@experiment("aetta/T2", "aetta/estimators", full=TABLES, setting=CONTINUAL, published="T2")
def in_sequence(runs: Runs) -> pd.DataFrame:
    """errors of accuracy estimates without labels, corruptions in sequence"""
    return estimation_errors(runs)


LEAST = "averaged over the methods, AETTA has the smallest error of all estimators"


@one_corruption.says("least-error", LEAST)
@in_sequence.says("least-error", LEAST)
def least(t: Table) -> Parts:
    """Every other estimator's error minus AETTA's, in every setting."""
    for panel in (panel for panel in t.panels if "AETTA" in t.curves(panel)):
        others = [name for name in t.curves(panel) if name != "AETTA"]
        yield from below(t, "AETTA", others, panel, x="Avg")


def cifar100(name: str, **rest: Any) -> Callable[[Callable[[Runs], pd.DataFrame]], Experiment]:
    """An experiment on the data set of the paper's figures, with corruptions in sequence."""
    return experiment(name, "aetta/estimators", full="aetta/cifar100", setting=CONTINUAL, **rest)


@cifar100("aetta/Fig2", method="TENT")
def confidence_over_stream(runs: Runs) -> pd.DataFrame:
    """accuracy, confidence and predicted classes of TENT over the stream"""
    columns = {
        "accuracy": ("accuracy", 100),
        "confidence": ("PredictionStatistics_confidence", 100),
    }
    columns |= {name: (f"PredictionStatistics_{name}", 1) for name in ("classes", "entropy")}
    rows = [
        row for p, own in columns.items() for run in runs for row in along(p, run.label, run, *own)
    ]
    what = "classes predicted in 25 batches, and entropy of their shares in nats"
    return tidy(rows, unit=f"accuracy and confidence, %; {what}", axis=SHARE)


confidence_over_stream.says("fails", "TENT's accuracy falls over the stream").falls(
    panel="accuracy"
)
confidence_over_stream.says("sure", "TENT's confidence rises while its accuracy falls").rises(
    panel="confidence"
)
confidence_over_stream.says(
    "skewed",
    "TENT's predictions become skewed towards a few classes: the entropy of their shares falls from its "
    "highest",
    points=False,
).peak("falls", panel="entropy")


@cifar100("aetta/Fig3")
def dropout_confidence(runs: Runs) -> pd.DataFrame:
    """calibration of the mean prediction under dropout, plain and robust, for six methods"""
    rows: Rows = []
    notes, failing, others = [], [], []
    for method, same in by_method(runs).items():
        plain, robust = {}, {}
        for run in same:
            path = run.folder / CALIBRATION.format("AETTA")
            if not path.exists():
                continue
            with np.load(path) as kept:
                sums = {name: kept[name] for name in kept.files}
            seed, images, bins = f"seed {run.seed}", sums["images"], len(sums["images"])
            for n in np.flatnonzero(images):
                x = round(100 * (n + 0.5) / bins, 6)
                for curve, name in CALIBRATED.items():
                    rows.append((method, curve, x, seed, 100 * float(sums[name][n] / images[n])))
            # The expected calibration error: the mean over images of |mean - accuracy| of their bin.
            plain[seed], robust[seed] = (
                100 * float(np.abs(sums[name] - sums["accuracy"]).sum() / images.sum())
                for name in ("confidence", "corrected")
            )
        if plain:
            both = f"{np.mean([*plain.values()]):.1f}, {np.mean([*robust.values()]):.1f}"
            notes.append(f"{method}: calibration error of CPC and RCPC {both} points")
            if method in FAILING:
                failing.append(paired(plain, robust))
            else:
                others.append(paired(dict.fromkeys(plain, 10.0), plain))
    return tidy(
        rows,
        unit="probability of being right, %",
        axis="confidence under dropout, %",
        notes=notes,
        intervals={"robust-nearer": failing, "plain-alike": others},
    )


CALIBRATED = {"accuracy": "accuracy", "CPC": "confidence", "RCPC": "corrected"}
dropout_confidence.says(
    "robust-nearer",
    "where TENT and EATA fail, robust calibration (RCPC) is nearer to the accuracy than plain (CPC)",
).computed("robust-nearer")
dropout_confidence.threshold(
    "plain-alike",
    "where methods do not fail, plain calibration (CPC) is within ten points of the accuracy",
).computed("plain-alike")


@cifar100("aetta/Fig4")
def too_high(runs: Runs) -> pd.DataFrame:
    """by how much each estimator is above the accuracy, by method"""
    rows: Rows = []
    methods = by_method(runs)
    accuracies = {method: points(same, "accuracy") for method, same in methods.items()}
    for name in dict.fromkeys(
        name for same in methods.values() for r in same for name in r.estimators
    ):
        cells = {
            method: {s: e - accuracies[method][s] for s, e in points(same, name).items()}
            for method, same in methods.items()
        }
        rows += with_average("", name, cells)
    return tidy(rows, unit="estimate less accuracy, points")


too_high.says("softmax-high", "SoftmaxScore is too high where TENT and EATA fail").positive(
    "SoftmaxScore", x=[*FAILING]
)
too_high.says("always-high", "SrcValid and GDE are too high, averaged over the methods").positive(
    ["SrcValid", "GDE"], x="Avg"
)


@cifar100("aetta/Fig5")
def exponents(runs: Runs) -> pd.DataFrame:
    """AETTA's error with 5, 10 and 15 passes, and with exponents from 0 to 5"""
    methods = by_method(runs)
    choices: dict[str, dict[str, Any]] = {}
    for same in methods.values():
        arguments = same[0].provenance.get("estimators", {}).get("AETTA", {})
        logged = (arguments.get("passes", 10), *(arguments.get("also") or ()))
        choices |= {f"N = {n}": {"passes": n} for n in (5, 10, 15) if n in logged}
        choices |= {f"alpha = {alpha}": {"alpha": alpha} for alpha in range(6)}
    rows: Rows = []
    for row, choice in choices.items():
        rows += with_average(
            "", row, {method: recomputed_errors(same, **choice) for method, same in methods.items()}
        )
    return tidy(rows, unit=ERROR)


def recomputed_errors(runs: Runs, signed: bool = False, **choice: Any) -> Values[str]:
    """Mean |estimate - accuracy| over corruptions in points for each seed (signed: without | |).

    choice: arguments of `recomputed`.
    """
    found = {}
    for seed, same in grouped(runs, lambda run: run.seed).items():
        errors: dict[Pairs, list[float]] = {}
        for run in same:
            for row, estimate in zip(run.rows, recomputed(run, **choice), strict=True):
                if not np.isnan(estimate):
                    error = estimate - row["accuracy"]
                    errors.setdefault(pairs_of(row), []).append(error if signed else abs(error))
        if errors:
            found[f"seed {seed}"] = 100 * float(np.mean([np.mean(own) for own in errors.values()]))
    return found


def recomputed(
    run: Run, passes: int | None = None, alpha: float = 3, of_batch: bool = False
) -> np.ndarray:
    """AETTA's estimates [T] recomputed from its columns; NaN for batches without them.

    of_batch: use the maximum entropy ln B of a batch of B images if it is below ln C.
    """
    import torch  # deferred: not needed for listing the experiments

    from ...callbacks.functional.scores import aetta_estimates

    own = run.provenance.get("estimators", {}).get("AETTA", {}).get("passes", 10)
    ending = "" if passes in (None, own) else f"_{passes}"
    disagreement, balance, classes = (
        run.column(f"AETTA_{name}")
        for name in (f"disagreement{ending}", f"balance{ending}", "classes")
    )
    known = ~np.isnan(disagreement)
    estimates = np.full(len(disagreement), np.nan)
    if known.any():
        if of_batch:
            size = run.rows[0]["images"]
            balance = np.minimum(1, balance * np.log(classes) / np.log(np.minimum(size, classes)))
        first, second = (torch.tensor(column[known]) for column in (disagreement, balance))
        estimates[known] = aetta_estimates(first, second, int(classes[known][0]), alpha).numpy()
    return estimates


exponents.threshold(
    "passes", "the errors with 5, 10 and 15 passes differ by less than a point"
).near(["N = 5", "N = 15"], "N = 10", x="Avg", within=1)
exponents.says("weight-helps", "the weight helps: alpha = 3 has less error than alpha = 0").below(
    "alpha = 3", "alpha = 0", x="Avg"
)
exponents.threshold(
    "alpha-hardly-matters",
    "the error hardly depends on alpha: from 1 to 5 it is within three points of that at 3",
).near([f"alpha = {n}" for n in (1, 2, 4, 5)], "alpha = 3", x="Avg", within=3)


SCHEMES = {"": "no recovery", "DistShift": "DistShift", "AETTA": "AETTA"}


def draw_resets(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the runs of the first seed as trailing means, with a mark per reset below."""
    from ..results.collapse import trailing_mean

    runs = [run for cell in cells if (run := Run.load(cell.folder)).finished]
    figure, (ax,) = panels(size=(8, 3.2))
    for level, run in enumerate(run for run in runs if run.seed == runs[0].seed):
        images, colour = run.column("images"), COLOURS[level]
        trailing = trailing_mean(100 * run.column("accuracy"), 5)
        ax.plot(images, trailing, color=colour, lw=1.5, label=SCHEMES[run.override])
        resets = images[run.column("reset") > 0]
        ax.plot(resets, np.full(len(resets), -3.0 * level), "|", color=colour, ms=8, mew=1.6)
    title = f"{runs[0].method}; resets are marked below"
    describe(ax, title, "images seen", "accuracy, %", grid="y")
    ax.legend(frameon=False, fontsize=8)
    return saved(figure, path)


@experiment(
    "aetta/Fig6", "aetta/recovery", method="TENT", override=list(SCHEMES), picture=draw_resets
)
def resets_over_stream(runs: Runs) -> pd.DataFrame:
    """TENT over the stream with AETTA's recovery and with DistShift, resets marked"""
    rows: Rows = []
    runs = sorted(runs, key=lambda run: list(SCHEMES).index(run.override))
    for run in runs:
        rows += along("accuracy", SCHEMES[run.override], run)
    for run in (run for run in runs if run.override):
        counts = [float(part.sum()) for part in np.array_split(run.column("reset"), WINDOWS)]
        place = "resets", SCHEMES[run.override]
        rows += [(*place, x, run.place, n) for x, n in zip(SHARES, counts, strict=True)]
    return tidy(rows, unit="accuracy, %; number of resets", axis=SHARE)


resets_over_stream.says("raise", "AETTA's resets raise the accuracy").above(
    "AETTA", "no recovery", "accuracy"
)
resets_over_stream.says(
    "rarer", "AETTA's resets are rarer than changes of the corruption", points=False
).above("DistShift", "AETTA", "resets")
resets_over_stream.says(
    "early",
    "in the first tenth of the stream the accuracy is higher with AETTA's resets than with DistShift's",
).above("AETTA", "DistShift", "accuracy", slice(2))


@experiment("aetta/T3", "aetta/recovery", published="T3")
def recovery(runs: Runs) -> pd.DataFrame:
    """accuracy gained by recovery: six schemes of resetting or restoring"""
    known = {
        key: points(same, "accuracy")
        for key, same in grouped(runs, lambda run: run.variant).items()
    }
    rows: Rows = []
    for scheme in (scheme for scheme in dict.fromkeys(scheme for _, scheme in known) if scheme):
        cells: dict[str, Values[str]] = {}
        for method in dict.fromkeys(method for method, _ in known):
            before, after = known.get((method, ""), {}), known.get((method, scheme), {})
            cells[method] = {s: after[s] - before[s] for s in after if s in before}
        rows += with_average("", scheme, cells)
    return tidy(rows, unit="accuracy gained, points")


OTHERS = ["Episodic", "MRS", "Stochastic", "FisherStochastic"]
recovery.says(
    "aetta-best", "AETTA's reset gains more than every other scheme, averaged over the methods"
).above("AETTA", [*OTHERS, "DistShift"], x="Avg")
recovery.says(
    "distshift-second", "DistShift gains more than all others but AETTA, averaged over the methods"
).above("DistShift", OTHERS, x="Avg")
recovery.says(
    "eata-recovers",
    "EATA recovers with AETTA, DistShift and Episodic, and less with MRS and either Stochastic",
).above(["AETTA", "DistShift", "Episodic"], OTHERS[1:], x="EATA")


CLASSES, CONCENTRATION = 10, 0.3  # of the Dirichlet distribution of each image's h~
SAMPLED = {"embedded": 20_000, "full": 200_000}  # images
PASSES = 10
A, FACTORS = 0.2, (1.5, 2.0, 4.0)  # factors of the over-confident class and of the others


class Measured(NamedTuple):
    """Error, PDD, the theorem's value from PDD, and AETTA's estimate on one sample, in [0,1]."""

    error: float
    disagreement: float
    theorem: float
    aetta: float


@experiment("aetta/Thm3", takes="scale")
def theorems(scale: str) -> pd.DataFrame:
    """disagreement under dropout against the error, where the theorems' conditions hold"""
    rows: Rows = []
    for x, b in {"calibrated": None, **{f"b = {b:g}": b for b in FACTORS}}.items():
        for seed in range(5):
            if b is None:
                measured = calibrated(SAMPLED[scale], PASSES, seed)
            else:
                measured = overconfident(SAMPLED[scale], PASSES, seed, A, b)
            own = measured._asdict().items()
            rows += [("", name, x, f"seed {seed}", 100 * number) for name, number in own]
    return tidy(rows, unit="%")


def calibrated(images: int, passes: int, seed: int) -> Measured:
    """Theorem 3.1: labels occur with the frequencies h~, so the error equals the disagreement."""
    random = np.random.default_rng(seed)
    h = random.dirichlet(np.full(CLASSES, CONCENTRATION), images)
    return sampled(h, h, passes, random, 1.0, 0.0)


def overconfident(images: int, passes: int, seed: int, a: float, b: float) -> Measured:
    """Theorem 3.2: class 0 is correct with a times the frequency h~, the other classes with b times.

    The label probabilities of each image sum to 1 only if h~ of class 0 is (b - 1) / (b - a).
    """
    random = np.random.default_rng(seed)
    share = (b - 1) / (b - a)
    others = random.dirichlet(np.full(CLASSES - 1, CONCENTRATION), images) * (1 - share)
    h = np.column_stack([np.full(images, share), others])
    factors = np.array([a] + [b] * (CLASSES - 1))
    return sampled(h, h * factors, passes, random, b, (b - a) * share * (1 - share))


def sampled(
    h: np.ndarray, truth: np.ndarray, passes: int, random: np.random.Generator, b: float, c: float
) -> Measured:
    """Error and disagreement of one hypothesis with `passes` others, all independent (Def. 3.1).

    h, truth [n,K]: the frequencies with which hypotheses and labels are each class.
    """
    from scipy.special import entr  # deferred: slow import

    labels, own = drawn(truth, random), drawn(h, random)
    disagreement = float(np.mean([(drawn(h, random) != own).mean() for _ in range(passes)]))
    balance = float(entr(h.mean(0)).sum() / np.log(CLASSES))
    # Eq. 13
    aetta = min(disagreement / balance**3, 1 - 1 / CLASSES)
    return Measured(float((own != labels).mean()), disagreement, b * disagreement - c, aetta)


def drawn(probabilities: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Sample a class [n] from each row of probabilities [n,K]."""
    below = probabilities.cumsum(1) < random.random((len(probabilities), 1))
    return below.sum(1).clip(max=probabilities.shape[1] - 1)


theorems.threshold(
    "theorem-3-1",
    "if hypotheses are calibrated, disagreement and error differ by less than a point (Theorem 3.1)",
).near("disagreement", "error", x="calibrated", within=1)
theorems.says(
    "overconfident", "with an over-confident class the disagreement is below the error"
).above("error", "disagreement", each=REST)
theorems.threshold(
    "theorem-3-2",
    "with an over-confident class, b PDD - C and the error differ by less than a point (Theorem 3.2)",
).near("theorem", "error", x=REST, within=1)


@theorems.says(
    "weight-nearer",
    "AETTA's estimate, weighted by the entropy alone, is nearer to the error than the disagreement is",
)
def nearer(t: Table) -> Parts:
    """The distance of the disagreement from the error minus that of AETTA's estimate."""
    for x in t.xs[1:]:
        error = t.values("", "error", x)
        plain, weighted = (
            {run: abs(value - error[run]) for run, value in t.values("", curve, x).items()}
            for curve in ("disagreement", "aetta")
        )
        yield Part(str(x), paired(plain, weighted), 0)


ALL_CLEARED = "DistShift, all cleared"


@experiment(
    "aetta/Resets",
    "aetta/resets",
    method=["EATA", "RoTTA", "SoTTA"],
    override=["", "DistShift", ALL_CLEARED],
)
def resets(runs: Runs) -> pd.DataFrame:
    """resets at each change of the corruption that keep memories, and that clear them"""
    renamed = {"": "no reset", "DistShift": "memories kept", ALL_CLEARED: "all cleared"}
    order = list(renamed.values())
    return accuracy(runs, curve="override", x="method", order=order, renamed=renamed)


resets.ours(
    "memories",
    "keeping memories changes the accuracy of RoTTA, SoTTA and EATA by less than a point",
).near("memories kept", "all cleared", within=1)


OF_BATCH = "AETTA, E_max of the batch"
CHOICES: dict[str, dict[str, Any]] = {
    "AETTA": {},
    OF_BATCH: {"of_batch": True},
    "disagreement alone": {"alpha": 0},
}


@cifar100("aetta/Why")
def why(runs: Runs) -> pd.DataFrame:
    """AETTA's estimates with the largest entropy that a batch can have, from the log of Table 2"""
    rows: Rows = []
    methods = by_method(runs)
    for name, choice in CHOICES.items():
        for panel, signed in (("error", False), ("too high by", True)):
            cells = {m: recomputed_errors(own, signed, **choice) for m, own in methods.items()}
            rows += with_average(panel, name, cells)
    for name in dict.fromkeys(name for own in methods.values() for name in own[0].estimators):
        if name != "AETTA":
            cells = {m: points(own, f"{name}_error") for m, own in methods.items()}
            rows += with_average("error", name, cells)
    return tidy(rows, unit="points")


why.ours("too-low", "AETTA is too low: its estimates are below the accuracy").positive(
    "AETTA", "too high by", x="Avg", sign=-1
)
why.ours(
    "e-max", "AETTA has less error with the batch's maximum entropy than with that of all classes"
).below(OF_BATCH, "AETTA", "error", x="Avg")


@why.ours(
    "least-error",
    "with the batch's maximum entropy AETTA has less error than every other estimator",
)
def others_above(t: Table) -> Parts:
    """Every other estimator's error minus AETTA's."""
    others = [curve for curve in t.curves("error") if curve not in CHOICES]
    return below(t, OF_BATCH, others, "error", x="Avg")


WIDTHS = ("width 8", "width 16", "width 24")


@experiment("aetta/Ablation", "aetta/ablation", scale=EMBEDDED)
def ablation(runs: Runs) -> pd.DataFrame:
    """AETTA's error by the rate and place of dropout, the network's width and the number of classes"""
    rows: Rows = []
    for network, own in grouped(runs, lambda run: run.override).items():
        methods = list(grouped(own, lambda run: run.method).values())
        for name, arguments in own[0].provenance["estimators"].items():
            cells: list[Values[str]] = [points(same, f"{name}_error") for same in methods]
            key = variant(name, arguments)
            rows += [(*key, network, run, value) for run, value in average(cells).items()]
    return tidy(rows, unit=ERROR)


def variant(name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """The changed setting, as panel and curve: ("rate", "0.1"), ("after", "net.layer1"), ("", "AETTA")."""
    if arguments.get("dropout") is not None:
        return "rate", f"{arguments['dropout']:g}"
    layers = arguments.get("layers")
    return ("after", ", ".join(layers)) if layers else ("", name)


ablation.ours(
    "classes",
    "the cause is the number of classes: with ten classes AETTA has less error than SoftmaxScore",
).below("AETTA", "SoftmaxScore", "", x="10 classes")
RATE: dict[str, Any] = {"panel": "rate", "than_panel": "", "x": "width 16"}
ablation.ours("larger-rate", "the cause is the dropout rate: a larger one has less error").below(
    ["0.3", "0.4"], "AETTA", **RATE
)
ablation.ours("smaller-rate", "the cause is the dropout rate: a smaller one has less error").below(
    "0.1", "AETTA", **RATE
)
ablation.ours(
    "smaller-rate-best", "with a smaller dropout rate AETTA has less error than SoftmaxScore"
).below("0.1", "SoftmaxScore", **RATE)


@ablation.ours(
    "place", "the cause is the place of dropout: after any single stage it has less error"
)
def places(t: Table) -> Parts:
    """The error with dropout after all stages minus that after a single one."""
    return below(t, t.curves("after"), "AETTA", "after", than_panel="", x="width 16")


@ablation.ours("width", "the cause is the width: the wider the network, the smaller the error")
def falls_with_width(t: Table) -> Parts:
    """The fall of the error from each width to the next."""
    for a, b in pairwise(WIDTHS):
        yield from falls(t, "AETTA", "", start=a, to=b)


@experiment("aetta/GDE", "aetta/gde", scale=EMBEDDED)
def independent_models(runs: Runs) -> pd.DataFrame:
    """errors of disagreement: of one model at two steps, and of three trained independently"""
    rows: Rows = []
    for label, same in grouped(runs, lambda run: run.label).items():
        for name in ("GDE", "IndependentGDE"):
            rows += [("", label, name, *own) for own in points(same, f"{name}_error").items()]
    return tidy(rows, unit=ERROR)


independent_models.ours(
    "independent",
    "where all models adapt, the disagreement of independently trained ones has less error than that of "
    "one at two steps",
).falls("TENT-others by TENT", start="GDE", to="IndependentGDE")
