"""AETTA: Towards Estimating Accuracy for Test-Time Adaptation (Lee et al. 2024)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....run_folder import CALIBRATION
from ...results.batch_means import pairs_of
from ...results.run_statistics import Values, above_zero, paired
from ...results.runs import Run, grouped
from ..accuracy import SHARE, SHARES, WINDOWS, accuracy, along
from ..engine.claims import (
    FIGURE,
    OURS,
    THRESHOLD,
    AtFull,
    Part,
    Parts,
    above,
    below,
    bounded,
    computed,
    falls,
    falls_from_peak,
    falls_throughout,
    near,
    negative,
    positive,
    rises,
)
from ..engine.experiment import table
from ..engine.sources import EMBEDDED, FULL, Simulation, Suite
from ..engine.table import REST, Except, Positions, Rows, Table, tidy

# Runs by whether their model ends below the source model.
FAILED, STOOD = "runs that fail", "runs that do not"
GAIN = "AETTA's gain"
ERROR = "mean absolute error, points"
MOST = 0.75  # of a size measured on ImageNet, as the interval of runs extends to both sides of the mean
PRINTED = ["aetta/cifar10", "aetta/cifar100", "aetta/imagenet"]
Runs = list[Run]
Measure = Callable[[Run], np.ndarray]  # one number per batch, NaN if there is none


def points(runs: Runs, measure: str | Measure) -> Values[str]:
    """The mean of a column in points for each seed, over the means of the corruptions as in the paper."""
    parts = [
        pd.DataFrame(
            {
                "run": f"seed {run.seed}",
                "corruption": [*map(pairs_of, run.rows)],
                "value": run.column(measure) if isinstance(measure, str) else measure(run),
            }
        )
        for run in runs
    ]
    means = pd.concat(parts).dropna().groupby(["run", "corruption"], sort=False)["value"].mean()
    return (100 * means.groupby("run", sort=False).mean()).to_dict()


def with_average(rows: Rows) -> Rows:
    """The rows, and the mean of each curve over all x of its panel."""
    frame = tidy(rows).frame
    wide = frame.pivot(index=["panel", "curve", "run"], columns="x", values="value")
    averages: Rows = []
    for _, of_panel in wide.groupby("panel"):
        means = of_panel.dropna(axis=1, how="all").mean(axis=1, skipna=False).dropna()
        averages += [(panel, curve, "Avg", run, v) for (panel, curve, run), v in means.items()]
    return [*rows, *averages]


def by_method(runs: Runs) -> dict[str, Runs]:
    return grouped([run for run in runs if run.adapts], lambda run: run.label)


def of_estimators(runs: Runs, panel: str, measure: Callable[[Runs, str], Values[str]]) -> Rows:
    """A measure of every estimator's runs with each adapting method, and its mean over the methods."""
    names = dict.fromkeys(name for run in runs if run.adapts for name in run.estimators)
    return with_average(
        [
            (panel, name, method, seed, value)
            for name in names
            for method, same in by_method(runs).items()
            for seed, value in measure(same, name).items()
        ]
    )


def error(runs: Runs, name: str) -> Values[str]:
    """The mean absolute error of an estimator in points for each seed."""
    return points(runs, f"{name}_error")


def estimation_errors(runs: Runs) -> Table:
    """Mean absolute errors of every estimator by setting and method, and AETTA's gain over the others."""
    estimated = [run for run in runs if run.adapts and run.estimators]
    rows = [
        row
        for setting, same in grouped(estimated, lambda run: run.setting).items()
        for row in of_estimators(same, setting, error)
    ]
    t = tidy(rows)
    rows += [("", GAIN, x, seed, v) for x in t.xs for seed, v in gains(t, str(x)).items()]
    return tidy(rows, unit=ERROR)


def gains(t: Table, x: str) -> Values[str]:
    """AETTA's gain over the other estimators, averaged over them and over the panels."""
    differences = []
    for panel, curve in t.cells:
        ours, theirs = t.values(panel, "AETTA", x), t.values(panel, curve, x)
        if curve != "AETTA" and ours:
            differences.append(pd.Series(theirs) - pd.Series(ours))
    return mean_in_all(differences)


def mean_in_all(values: Sequence[Any]) -> Values[str]:
    """The mean of several values by run, for the runs that are in all of them."""
    return pd.DataFrame(values).mean(skipna=False).dropna().to_dict()


@table(
    "aetta/T1",
    Suite(
        "aetta/estimators",
        full=PRINTED,
        only={
            "method": ["TENT", "EATA", "SAR", "CoTTA", "RoTTA", "SoTTA"],
            "setting": "Fully *",
        },
    ),
    "errors of accuracy estimates without labels, each corruption on its own",
)
def fully_test_time(runs: Runs) -> Table:
    return estimation_errors(runs)


@table(
    "aetta/T2",
    Suite("aetta/estimators", full=PRINTED, only={"setting": "Continual *"}),
    "errors of accuracy estimates without labels, corruptions in sequence",
)
def continual(runs: Runs) -> Table:
    return estimation_errors(runs)


for estimated, gain in ((fully_test_time, 18.57), (continual, 21.02)):
    estimated.claim(
        "least-error",
        "averaged over the methods, AETTA has the smallest error of all estimators",
        below("AETTA", Except("AETTA"), panel=Except(""), x="Avg"),
        quote="“AETTA achieves the lowest mean absolute error, including adaptation failure cases”,"
        " section 4; the columns Avg",
    )
    estimated.claim(
        "gain",
        f"averaged over methods and estimators, AETTA's error is smaller than theirs by {gain} points",
        bounded(GAIN, panel="", x="Avg", least=AtFull(MOST * gain)),
        quote="“On average, AETTA outperforms baselines by 19.8%p”, section 4; cells: "
        f"{gain} in this table",
        direction="averaged over methods and estimators, AETTA's error is smaller than theirs",
    )


@table(
    "aetta/Fig2",
    Suite(
        "aetta/estimators",
        full=["aetta/cifar100"],
        only={"method": "TENT", "setting": "Continual *"},
    ),
    "accuracy, confidence and predicted classes of TENT over the stream",
)
def confidence_over_stream(runs: Runs) -> Table:
    panels = {"accuracy": 100, "confidence": 100, "classes": 1, "entropy": 1}
    rows = []
    for panel, factor in panels.items():
        column = panel if panel == "accuracy" else f"PredictionStatistics_{panel}"
        rows += [row for run in runs for row in along(panel, run.label, run, column, factor)]
    what = "classes predicted in 25 batches, and entropy of their shares in nats"
    return tidy(rows, unit=f"accuracy and confidence, %; {what}", axis=SHARE)


confidence_over_stream.claim(
    "fails",
    "TENT's accuracy falls over the stream",
    falls(panel="accuracy"),
    quote="“accuracy, confidence, and prediction distribution when a model failed to adapt”, "
    "caption",
)
confidence_over_stream.claim(
    "sure",
    "TENT's confidence rises while its accuracy falls",
    rises(panel="confidence"),
    premise=falls(panel="accuracy"),
    unless="the accuracy does not fall",
    quote="“accuracy drops, the confidence increases”, section 3.2",
)
confidence_over_stream.claim(
    "skewed",
    "TENT's predictions become skewed towards a few classes: the entropy of their shares "
    "falls from its highest",
    falls_from_peak(panel="entropy"),
    quote="“predictions are skewed towards a few classes”, section 3.2",
)


ALIKE = 10.0  # points: calibration errors below it are read as alignment
CALIBRATED = {"accuracy": "accuracy", "CPC": "confidence", "RCPC": "corrected"}
CONTINUAL = Suite(
    "aetta/estimators",
    full=["aetta/cifar100"],
    scales=[EMBEDDED, FULL],
    only={"setting": "Continual *"},
)
# The paper's three seeds: the unit is the run, of whatever method.
BY_END = Suite(
    "aetta/estimators",
    full=["aetta/cifar100"],
    scales=[EMBEDDED, FULL],
    only={"setting": "Continual *", "seed": ["0", "1", "2"]},
)


@table(
    "aetta/Fig3",
    BY_END,
    "calibration of the mean prediction under dropout, plain and robust, for six methods",
)
def dropout_confidence(runs: Runs) -> Table:
    rows: Rows = []
    errors = []  # expected calibration errors of each run
    for run in (run for run in runs if run.adapts):
        if not (path := run.folder / CALIBRATION.format("AETTA")).exists():
            continue
        with np.load(path) as arrays:
            bins, seed = pd.DataFrame(dict(arrays)), f"seed {run.seed}"
        middles, filled = 100 * (bins.index + 0.5) / len(bins), bins[bins["images"] > 0]
        for curve, name in CALIBRATED.items():
            values = 100 * filled[name] / filled["images"]
            rows += [(run.label, curve, round(middles[n], 6), seed, v) for n, v in values.items()]
        gaps = bins[["confidence", "corrected"]].sub(bins["accuracy"], axis=0).abs()
        means = 100 * gaps.sum() / bins["images"].sum()
        errors.append((run.label, f"{run.label}, {seed}", run.collapsed, *means))
    frame = pd.DataFrame(errors, columns=["method", "run", "fails", "CPC", "RCPC"])
    notes = [
        f"{method}: {of_method['fails'].eq(True).sum()} of {len(of_method)} runs end below the source "
        f"model; calibration error of CPC and RCPC {of_method['CPC'].mean():.1f}, "
        f"{of_method['RCPC'].mean():.1f} points"
        for method, of_method in frame.groupby("method", sort=False)
    ]
    frame = frame.set_index("run")
    failed, stood = frame[frame["fails"].eq(True)], frame[frame["fails"].eq(False)]
    plain = stood["CPC"].to_dict()
    intervals = {
        "robust-nearer": [paired(failed["CPC"].to_dict(), failed["RCPC"].to_dict())],
        "plain-alike": [paired(dict.fromkeys(plain, ALIKE), plain)],
    }
    unit, axis = "probability of being right, %", "confidence under dropout, %"
    return tidy(rows, unit=unit, axis=axis, notes=notes, intervals=intervals)


dropout_confidence.claim(
    "robust-nearer",
    "in runs that end below the source model, robust calibration (RCPC) is nearer to the accuracy "
    "than plain (CPC)",
    computed("robust-nearer"),
    quote="“When models failed to adapt, the original CPC misaligned with the ground truth. In "
    "contrast, our WCPC dynamically scaled the probability p, thus showing better "
    "alignment”, caption",
)
dropout_confidence.claim(
    "plain-alike",
    "in runs that do not, plain calibration (CPC) is within ten points of the accuracy",
    computed("plain-alike"),
    group=THRESHOLD,
    quote="read from Figure 3, SAR to SoTTA",
)


@table("aetta/Fig4", BY_END, "by how much each estimator is above the accuracy, by method")
def too_high(runs: Runs) -> Table:
    def excess(same: Runs, name: str) -> Values[str]:
        estimates, truth = points(same, name), points(same, "accuracy")
        return {seed: estimate - truth[seed] for seed, estimate in estimates.items()}

    rows = of_estimators(runs, "", excess)
    rows += [
        ("", name, FAILED if run.collapsed else STOOD, f"{run.label}, seed {run.seed}", value)
        for run in runs
        if run.adapts and run.collapsed is not None
        for name in run.estimators
        for value in excess([run], name).values()
    ]
    return tidy(rows, unit="estimate less accuracy, points")


too_high.claim(
    "softmax-high",
    "SoftmaxScore is too high in runs that end below the source model",
    positive("SoftmaxScore", x=FAILED),
    quote="“it overestimates the accuracy when the model accuracy drops”, section 4",
)
too_high.claim(
    "always-high",
    "GDE is too high, averaged over the methods, and SrcValid in runs that do not end below the "
    "source model",
    positive("GDE", x="Avg"),
    positive("SrcValid", x=STOOD),
    quote="of SrcValid “it consistently predicted high accuracy when the adaptation did not "
    "fail”, of GDE “showed to constantly predict high values among different TTA "
    "methods”, section 4",
)


@table(
    "aetta/Fig5",
    CONTINUAL,
    "AETTA's error with 5, 10 and 15 passes, and with exponents from 0 to 5",
)
def exponents(runs: Runs) -> Table:
    passes = {f"N = {n}": {"passes": n} for n in (5, 10, 15)}
    weights = {f"alpha = {alpha}": {"alpha": alpha} for alpha in range(6)}
    return tidy(with_average(of_choices(runs, "", {**passes, **weights})), unit=ERROR)


def of_choices(
    runs: Runs, panel: str, choices: Mapping[str, Mapping[str, Any]], signed: bool = False
) -> Rows:
    """AETTA's error for each method with each choice of the arguments of `recomputed`."""
    return [
        (panel, curve, method, seed, value)
        for curve, choice in choices.items()
        for method, same in by_method(runs).items()
        for seed, value in recomputed(same, signed=signed, **choice).items()
    ]


def recomputed(
    runs: Runs,
    passes: int | None = None,
    alpha: float = 3,
    of_batch: bool = False,
    signed: bool = False,
) -> Values[str]:
    """AETTA's mean absolute error in points for each seed, recomputed from its columns.

    passes: their number, if `AETTA(also=...)` logged it. of_batch: use the maximum entropy ln B of a batch
    of B images if it is below ln C. signed: the mean of estimate minus accuracy.
    """
    import torch  # deferred: not needed for listing the experiments

    from ....callbacks.functional.scores import aetta_estimates

    def gap(run: Run) -> np.ndarray:
        usual = run.provenance.get("estimators", {}).get("AETTA", {}).get("passes", 10)
        ending = "" if passes in (None, usual) else f"_{passes}"
        names = f"disagreement{ending}", f"balance{ending}", "classes"
        disagreement, balance, classes = (run.column(f"AETTA_{name}") for name in names)
        if of_batch:
            size = run.rows[0]["images"]
            balance = np.minimum(1, balance * np.log(classes) / np.log(np.minimum(size, classes)))
        known, gaps = ~np.isnan(disagreement), np.full(len(disagreement), np.nan)
        if known.any():
            first, second = (torch.tensor(column[known]) for column in (disagreement, balance))
            gaps[known] = aetta_estimates(first, second, int(classes[known][0]), alpha).numpy()
        gaps -= run.column("accuracy")
        return gaps if signed else abs(gaps)

    return points(runs, gap)


OTHER_ALPHAS = [f"alpha = {alpha}" for alpha in (1, 2, 4, 5)]
exponents.claim(
    "passes",
    "the errors with 5, 10 and 15 passes differ by less than a point",
    near(["N = 5", "N = 15"], "N = 10", x="Avg", within=1),
    group=THRESHOLD,
    quote="“the effect of hyperparameter N is negligible”, section 4",
)
exponents.claim(
    "weight-helps",
    "the weight helps: alpha = 3 has less error than alpha = 0",
    below("alpha = 3", "alpha = 0", x="Avg"),
    quote="“which shows the importance of our robust equality”, section 4",
)
exponents.claim(
    "alpha-hardly-matters",
    "the error hardly depends on alpha: from 1 to 5 it is within three points of that at 3",
    near(OTHER_ALPHAS, "alpha = 3", x="Avg", within=3),
    group=THRESHOLD,
    quote="“our experiment found that accuracy estimation is not too sensitive to”, section 3.3",
)


@table(
    "aetta/Fig6",
    Suite(
        "aetta/recovery",
        scales=[EMBEDDED, FULL],
        only={"method": "TENT", "override": ["", "DistShift", "AETTA"]},
    ),
    "TENT over the stream with AETTA's recovery and with DistShift: accuracy and number of resets",
)
def resets_over_stream(runs: Runs) -> Table:
    schemes = ["", "DistShift", "AETTA"]
    rows: Rows = []
    for run in sorted(runs, key=lambda run: schemes.index(run.override)):
        rows += along("accuracy", run.override or "no recovery", run)
        if run.override:
            counts = [part.sum() for part in np.array_split(run.column("reset"), WINDOWS)]
            pairs = zip(SHARES, counts, strict=True)
            rows += [("resets", run.override, x, run.place, n) for x, n in pairs]
    return tidy(rows, unit="accuracy, %; number of resets", axis=SHARE)


resets_over_stream.claim(
    "raise",
    "AETTA's resets raise the accuracy",
    above("AETTA", "no recovery", panel="accuracy"),
    quote="“Our proposed reset algorithm successfully recovers from adaptation failures”, "
    "section 5",
)
resets_over_stream.claim(
    "rarer",
    "AETTA's resets are rarer than changes of the corruption",
    above("DistShift", "AETTA", panel="resets"),
    group=FIGURE,
    quote="Figure 6; “our recovery algorithm resets only when an accuracy degradation trend is "
    "detected”, section 5",
)
resets_over_stream.claim(
    "early",
    "in the first tenth of the stream the accuracy is higher with AETTA's resets than "
    "with DistShift's",
    above("AETTA", "DistShift", panel="accuracy", x=Positions(1, 2)),
    quote="“DistShift failed to recover in the early steps since it resets the model only on "
    "distribution shifts”, section 5",
)


@table(
    "aetta/T3",
    Suite("aetta/recovery"),
    "accuracy gained by recovery: six schemes of resetting or restoring",
)
def recovery(runs: Runs) -> Table:
    variants = grouped(runs, lambda run: run.variant).items()
    accuracies = {variant: points(same, "accuracy") for variant, same in variants}
    rows = [
        ("", scheme, method, seed, value - accuracies[method, ""][seed])
        for (method, scheme), values in accuracies.items()
        for seed, value in values.items()
        if scheme and seed in accuracies.get((method, ""), {})
    ]
    return tidy(with_average(rows), unit="accuracy gained, points")


OTHERS = ["Episodic", "MRS", "Stochastic", "FisherStochastic"]
recovery.claim(
    "aetta-best",
    "AETTA's reset gains more than every other scheme, averaged over the methods",
    above("AETTA", [*OTHERS, "DistShift"], x="Avg"),
    quote="“Our simple recovery algorithm outperforms the baselines, including DistShift”, "
    "section 5",
)
recovery.claim(
    "distshift-second",
    "DistShift gains more than all others but AETTA, averaged over the methods",
    above("DistShift", OTHERS, x="Avg"),
    quote="cells: Avg., 8.74 for DistShift, at most 5.29 for the others",
)
recovery.claim(
    "eata-recovers",
    "EATA recovers with AETTA, DistShift and Episodic, and less with MRS and either Stochastic",
    above(["AETTA", "DistShift", "Episodic"], OTHERS[1:], x="EATA"),
    quote="“while failing to recover EATA”, section 5; the column EATA",
)


CLASSES, CONCENTRATION = 10, 0.3  # of the Dirichlet distribution of each image's h~
SAMPLED = {"embedded": 20_000, "full": 200_000}  # images
PASSES = 10
A, FACTORS = 0.2, (1.5, 2.0, 4.0)  # factors of the over-confident class and of the others


@table(
    "aetta/Thm3",
    Simulation(),
    "disagreement under dropout against the error, where the theorems' conditions hold",
)
def theorems(scale: str) -> Table:
    rows = [
        ("", name, "calibrated" if b is None else f"b = {b:g}", f"seed {seed}", 100 * value)
        for b in (None, *FACTORS)
        for seed in range(5)
        for name, value in sampled(SAMPLED[scale], seed, b).items()
    ]
    return tidy(rows, unit="%")


def sampled(images: int, seed: int, b: float | None = None) -> dict[str, float]:
    """Error, PDD, the theorem's value from PDD, and AETTA's estimate in [0,1], on one sample.

    One hypothesis is compared with PASSES others, all independent (Def. 3.1). Without b, labels occur with
    the frequencies h~ of the hypotheses' classes (Theorem 3.1). With b, class 0 is correct with A times the
    frequency h~ and the other classes with b times (Theorem 3.2); the label probabilities of each image
    then sum to 1 only if h~ of class 0 is (b - 1) / (b - A).
    """
    from scipy.special import entr  # deferred: slow import

    random = np.random.default_rng(seed)
    if b is None:
        h = truth = random.dirichlet(np.full(CLASSES, CONCENTRATION), images)
        factor, constant = 1.0, 0.0
    else:
        share = (b - 1) / (b - A)
        others = random.dirichlet(np.full(CLASSES - 1, CONCENTRATION), images) * (1 - share)
        h = np.column_stack([np.full(images, share), others])
        truth = h * np.array([A] + [b] * (CLASSES - 1))
        factor, constant = b, (b - A) * share * (1 - share)
    labels, classes = drawn(truth, random), drawn(h, random)
    disagreement = float(np.mean([(drawn(h, random) != classes).mean() for _ in range(PASSES)]))
    balance = float(entr(h.mean(0)).sum() / np.log(CLASSES))
    return {
        "error": float((classes != labels).mean()),
        "disagreement": disagreement,
        "theorem": factor * disagreement - constant,
        # Eq. 13
        "aetta": min(disagreement / balance**3, 1 - 1 / CLASSES),
    }


def drawn(probabilities: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Sample a class [n] from each row of probabilities [n,K]."""
    below = probabilities.cumsum(1) < random.random((len(probabilities), 1))
    return below.sum(1).clip(max=probabilities.shape[1] - 1)


def nearer(t: Table) -> Parts:
    """The distance of the disagreement from the error minus that of AETTA's estimate."""
    values = t.frame.pivot(index=["x", "run"], columns="curve", values="value")
    plain, weighted = ((values[name] - values["error"]).abs() for name in ("disagreement", "aetta"))
    for x in t.xs[1:]:
        yield Part(str(x), above_zero((plain - weighted)[x].to_dict()), 0)


theorems.claim(
    "theorem-3-1",
    "if hypotheses are calibrated, disagreement and error differ by less than a point "
    "(Theorem 3.1)",
    near("disagreement", "error", x="calibrated", within=1),
    group=THRESHOLD,
    quote="“prediction disagreement with dropouts (PDD) approximates the test error”, Theorem 3.1",
)
theorems.claim(
    "overconfident",
    "with an over-confident class the disagreement is below the error",
    above("error", "disagreement", each=REST),
    quote="“This violates the confidenceprediction calibration, leading to a high misalignment "
    "between test error and PDD”, section 3.2",
)
theorems.claim(
    "theorem-3-2",
    "with an over-confident class, b PDD - C and the error differ by less than a point "
    "(Theorem 3.2)",
    near("theorem", "error", x=REST, within=1),
    group=THRESHOLD,
    quote="“with a weighting constant b, prediction disagreement with dropouts (PDD) "
    "approximates the test error”, Theorem 3.2",
)
theorems.claim(
    "weight-nearer",
    "AETTA's estimate, weighted by the entropy alone, is nearer to the error than the "
    "disagreement is",
    nearer,
    group=OURS,
)


RESETS = {"": "no reset", "DistShift": "memories kept", "DistShift, all cleared": "all cleared"}


@table(
    "aetta/Resets",
    Suite(
        "aetta/resets",
        scales=[EMBEDDED, FULL],
        only={
            "method": ["EATA", "RoTTA", "SoTTA"],
            "override": ["", "DistShift", "DistShift, all cleared"],
        },
    ),
    "resets at each change of the corruption that keep memories, and that clear them",
)
def resets(runs: Runs) -> Table:
    order = [*RESETS.values()]
    return accuracy(runs, curve="override", x="method", order=order, renamed=RESETS)


resets.claim(
    "memories",
    "keeping memories changes the accuracy of RoTTA, SoTTA and EATA by less than a point",
    near("memories kept", "all cleared", within=1),
    group=OURS,
)


OF_BATCH = "AETTA, E_max of the batch"
CHOICES: dict[str, dict[str, Any]] = {
    "AETTA": {},
    OF_BATCH: {"of_batch": True},
    "disagreement alone": {"alpha": 0},
}


@table(
    "aetta/Why",
    CONTINUAL,
    "AETTA's estimates with the largest entropy that a batch can have, from the log of Table 2",
)
def largest_entropy(runs: Runs) -> Table:
    rows = of_choices(runs, "error", CHOICES) + of_choices(runs, "too high by", CHOICES, True)
    others = of_estimators(runs, "error", error)
    rows = with_average(rows) + [row for row in others if row[1] != "AETTA"]
    return tidy(rows, unit="points")


largest_entropy.claim(
    "too-low",
    "AETTA is too low: its estimates are below the accuracy",
    negative("AETTA", panel="too high by", x="Avg"),
    group=OURS,
)
largest_entropy.claim(
    "e-max",
    "AETTA has less error with the batch's maximum entropy than with that of all classes",
    below(OF_BATCH, "AETTA", panel="error", x="Avg"),
    group=OURS,
)
largest_entropy.claim(
    "least-error",
    "with the batch's maximum entropy AETTA has less error than every other estimator",
    below(OF_BATCH, Except(*CHOICES), panel="error", x="Avg"),
    group=OURS,
)


@table(
    "aetta/Ablation",
    Suite("aetta/ablation", scales=[EMBEDDED]),
    "AETTA's error by the rate and place of dropout, the network's width and the number of classes",
)
def ablation(runs: Runs) -> Table:
    rows: Rows = []
    for network, same_network in grouped(runs, lambda run: run.override).items():
        methods = list(grouped(same_network, lambda run: run.method).values())
        for name, arguments in same_network[0].provenance["estimators"].items():
            key = variant(name, arguments)
            values = mean_in_all([error(same, name) for same in methods])
            rows += [(*key, network, run, value) for run, value in values.items()]
    return tidy(rows, unit=ERROR)


def variant(name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """The changed setting, as panel and curve: ("rate", "0.1"), ("after", "net.layer1"), ("", "AETTA")."""
    if arguments.get("dropout") is not None:
        return "rate", f"{arguments['dropout']:g}"
    layers = arguments.get("layers")
    return ("after", ", ".join(layers)) if layers else ("", name)


RATE: dict[str, Any] = {"panel": "rate", "than_panel": "", "x": "width 16"}
WIDTHS = ["width 8", "width 16", "width 24"]
ablation.claim(
    "classes",
    "the cause is the number of classes: with ten classes AETTA has less error than SoftmaxScore",
    below("AETTA", "SoftmaxScore", panel="", x="10 classes"),
    group=OURS,
)
ablation.claim(
    "larger-rate",
    "the cause is the dropout rate: a larger one has less error",
    below(["0.3", "0.4"], "AETTA", **RATE),
    group=OURS,
)
ablation.claim(
    "smaller-rate",
    "the cause is the dropout rate: a smaller one has less error",
    below("0.1", "AETTA", **RATE),
    group=OURS,
)
ablation.claim(
    "smaller-rate-best",
    "with a smaller dropout rate AETTA has less error than SoftmaxScore",
    below("0.1", "SoftmaxScore", **RATE),
    group=OURS,
)
ablation.claim(
    "place",
    "the cause is the place of dropout: after any single stage it has less error",
    below(None, "AETTA", panel="after", than_panel="", x="width 16"),
    group=OURS,
)
ablation.claim(
    "width",
    "the cause is the width: the wider the network, the smaller the error",
    falls_throughout("AETTA", panel="", x=WIDTHS),
    group=OURS,
)


@table(
    "aetta/GDE",
    Suite("aetta/gde", scales=[EMBEDDED]),
    "errors of disagreement: of one model at two steps, and of three trained independently",
)
def independent_models(runs: Runs) -> Table:
    rows = [
        ("", label, name, seed, value)
        for label, same in grouped(runs, lambda run: run.label).items()
        for name in ("GDE", "IndependentGDE")
        for seed, value in error(same, name).items()
    ]
    return tidy(rows, unit=ERROR)


independent_models.claim(
    "independent",
    "where all models adapt, the disagreement of independently trained ones has less "
    "error than that of one at two steps",
    falls("TENT-others by TENT", first="GDE", last="IndependentGDE"),
    group=OURS,
)
