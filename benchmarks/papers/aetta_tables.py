"""AETTA: Towards Estimating Accuracy for Test-Time Adaptation (Lee et al. 2024)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ...run_folder import CALIBRATION
from ..results.batch_means import pairs_of
from ..results.run_statistics import Difference, Values, above_zero, paired
from ..results.runs import Run, grouped
from . import claims
from .accuracy_tables import SHARE, SHARES, WINDOWS, accuracy, along
from .claims import Part, Parts, besides
from .experiment import experiment
from .table import MOST_OF, REST, Rows, Table, tidy

FAILING = ["TENT", "EATA"]
GAIN = "AETTA's gain"
ERROR = "mean absolute error, points"
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
    wide = tidy(rows).pivot(index=["panel", "curve", "run"], columns="x", values="value")
    found = [*rows]
    for _, own in wide.groupby("panel"):
        means = own.dropna(axis=1, how="all").mean(axis=1, skipna=False).dropna()
        found += [(panel, curve, "Avg", run, v) for (panel, curve, run), v in means.items()]
    return found


def by_method(runs: Runs) -> dict[str, Runs]:
    return grouped([run for run in runs if run.adapts], lambda run: run.label)


def of_estimators(runs: Runs, panel: str, measure: Callable[[Runs, str], Values[str]]) -> Rows:
    """A measure of every estimator's runs with each adapting method, and its mean over the methods."""
    names = dict.fromkeys(name for run in runs if run.adapts for name in run.estimators)
    return with_average(
        [
            (panel, name, method, *own)
            for name in names
            for method, same in by_method(runs).items()
            for own in measure(same, name).items()
        ]
    )


def error(runs: Runs, name: str) -> Values[str]:
    """The mean absolute error of an estimator in points for each seed."""
    return points(runs, f"{name}_error")


def estimation_errors(runs: Runs) -> pd.DataFrame:
    """Mean absolute errors of every estimator by setting and method, and AETTA's gain over the others."""
    watched = [run for run in runs if run.adapts and run.estimators]
    rows = [
        row
        for setting, same in grouped(watched, lambda run: run.setting).items()
        for row in of_estimators(same, setting, error)
    ]
    t = Table(tidy(rows))
    rows += [("", GAIN, x, *own) for x in t.xs for own in gains(t, str(x)).items()]
    return tidy(rows, unit=ERROR)


def gains(t: Table, x: str) -> Values[str]:
    """AETTA's gain over the other estimators, averaged over them and over the panels."""
    several = []
    for panel, curve in t.cells:
        ours, theirs = t.values(panel, "AETTA", x), t.values(panel, curve, x)
        if curve != "AETTA" and ours:
            several.append(pd.Series(theirs) - pd.Series(ours))
    return mean_in_all(several)


def mean_in_all(several: Sequence[Any]) -> Values[str]:
    """The mean of several values by run, for the runs that are in all of them."""
    return pd.DataFrame(several).mean(skipna=False).dropna().to_dict()


for name, gain in (("aetta/T1", 18.57), ("aetta/T2", 21.02)):
    own = experiment(name)(estimation_errors)
    own.says("least-error").below("AETTA", besides("AETTA"), besides(""), x="Avg")
    own.says("gain", at_full={"least": MOST_OF * gain}).bounded(GAIN, "", "Avg", least=0)


@experiment("aetta/Fig2")
def confidence_over_stream(runs: Runs) -> pd.DataFrame:
    """accuracy, confidence and predicted classes of TENT over the stream"""
    panels = {"accuracy": 100, "confidence": 100, "classes": 1, "entropy": 1}
    rows = []
    for panel, factor in panels.items():
        column = panel if panel == "accuracy" else f"PredictionStatistics_{panel}"
        rows += [row for run in runs for row in along(panel, run.label, run, column, factor)]
    what = "classes predicted in 25 batches, and entropy of their shares in nats"
    return tidy(rows, unit=f"accuracy and confidence, %; {what}", axis=SHARE)


confidence_over_stream.says("fails").falls(panel="accuracy")
confidence_over_stream.says(
    "sure", premise=partial(claims.falls, panel="accuracy"), unless="the accuracy does not fall"
).rises(panel="confidence")
confidence_over_stream.says("skewed").peak("falls", panel="entropy")


CALIBRATED = {"accuracy": "accuracy", "CPC": "confidence", "RCPC": "corrected"}


@experiment("aetta/Fig3")
def dropout_confidence(runs: Runs) -> pd.DataFrame:
    """calibration of the mean prediction under dropout, plain and robust, for six methods"""
    rows: Rows = []
    notes = []
    intervals: dict[str, list[Difference | None]] = {"robust-nearer": [], "plain-alike": []}
    for method, same in by_method(runs).items():
        plain: Values[str] = {}
        robust: Values[str] = {}
        for run in same:
            if not (path := run.folder / CALIBRATION.format("AETTA")).exists():
                continue
            with np.load(path) as arrays:
                own, seed = pd.DataFrame(dict(arrays)), f"seed {run.seed}"
            middles, known = 100 * (own.index + 0.5) / len(own), own[own["images"] > 0]
            for curve, name in CALIBRATED.items():
                values = 100 * known[name] / known["images"]
                rows += [(method, curve, round(middles[n], 6), seed, v) for n, v in values.items()]
            # The expected calibration error: the mean over images of |mean - accuracy| of their bin.
            for name, found in (("confidence", plain), ("corrected", robust)):
                gaps = (own[name] - own["accuracy"]).abs()
                found[seed] = 100 * gaps.sum() / own["images"].sum()
        if plain:
            both = f"{np.mean([*plain.values()]):.1f}, {np.mean([*robust.values()]):.1f}"
            notes.append(f"{method}: calibration error of CPC and RCPC {both} points")
            fails = method in FAILING
            gain = paired(plain, robust) if fails else paired(dict.fromkeys(plain, 10.0), plain)
            intervals["robust-nearer" if fails else "plain-alike"].append(gain)
    unit, axis = "probability of being right, %", "confidence under dropout, %"
    return tidy(rows, unit=unit, axis=axis, notes=notes, intervals=intervals)


for id in ("robust-nearer", "plain-alike"):
    dropout_confidence.says(id).computed(id)


@experiment("aetta/Fig4")
def too_high(runs: Runs) -> pd.DataFrame:
    """by how much each estimator is above the accuracy, by method"""

    def excess(same: Runs, name: str) -> Values[str]:
        estimates, truth = points(same, name), points(same, "accuracy")
        return {seed: estimate - truth[seed] for seed, estimate in estimates.items()}

    return tidy(of_estimators(runs, "", excess), unit="estimate less accuracy, points")


too_high.says("softmax-high").bounded("SoftmaxScore", x=FAILING, least=0)
always_high = too_high.says("always-high").positive("GDE", x="Avg")
always_high.positive("SrcValid", x=besides(*FAILING, "Avg"))


@experiment("aetta/Fig5")
def exponents(runs: Runs) -> pd.DataFrame:
    """AETTA's error with 5, 10 and 15 passes, and with exponents from 0 to 5"""
    passes = {f"N = {n}": {"passes": n} for n in (5, 10, 15)}
    weights = {f"alpha = {alpha}": {"alpha": alpha} for alpha in range(6)}
    return tidy(with_average(of_choices(runs, "", {**passes, **weights})), unit=ERROR)


def of_choices(
    runs: Runs, panel: str, choices: Mapping[str, Mapping[str, Any]], signed: bool = False
) -> Rows:
    """AETTA's error for each method with each choice of the arguments of `recomputed`."""
    return [
        (panel, curve, method, *own)
        for curve, choice in choices.items()
        for method, same in by_method(runs).items()
        for own in recomputed(same, signed=signed, **choice).items()
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

    from ...callbacks.functional.scores import aetta_estimates

    def gap(run: Run) -> np.ndarray:
        own = run.provenance.get("estimators", {}).get("AETTA", {}).get("passes", 10)
        ending = "" if passes in (None, own) else f"_{passes}"
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


exponents.says("passes").near(["N = 5", "N = 15"], "N = 10", x="Avg", within=1)
exponents.says("weight-helps").below("alpha = 3", "alpha = 0", x="Avg")
exponents.says("alpha-hardly-matters").near(
    [f"alpha = {n}" for n in (1, 2, 4, 5)], "alpha = 3", x="Avg", within=3
)


@experiment("aetta/Fig6")
def resets_over_stream(runs: Runs) -> pd.DataFrame:
    """TENT over the stream with AETTA's recovery and with DistShift: accuracy and number of resets"""
    schemes = ["", "DistShift", "AETTA"]
    rows: Rows = []
    for run in sorted(runs, key=lambda run: schemes.index(run.override)):
        rows += along("accuracy", run.override or "no recovery", run)
        if run.override:
            counts = [part.sum() for part in np.array_split(run.column("reset"), WINDOWS)]
            place = "resets", run.override
            rows += [(*place, x, run.place, n) for x, n in zip(SHARES, counts, strict=True)]
    return tidy(rows, unit="accuracy, %; number of resets", axis=SHARE)


resets_over_stream.says("raise").above("AETTA", "no recovery", "accuracy")
resets_over_stream.says("rarer").above("DistShift", "AETTA", "resets")
resets_over_stream.says("early").above("AETTA", "DistShift", "accuracy", slice(2))


@experiment("aetta/T3")
def recovery(runs: Runs) -> pd.DataFrame:
    """accuracy gained by recovery: six schemes of resetting or restoring"""
    variants = grouped(runs, lambda run: run.variant).items()
    known = {variant: points(same, "accuracy") for variant, same in variants}
    rows = [
        ("", scheme, method, seed, value - known[method, ""][seed])
        for (method, scheme), values in known.items()
        for seed, value in values.items()
        if scheme and seed in known.get((method, ""), {})
    ]
    return tidy(with_average(rows), unit="accuracy gained, points")


OTHERS = ["Episodic", "MRS", "Stochastic", "FisherStochastic"]
recovery.says("aetta-best").above("AETTA", [*OTHERS, "DistShift"], x="Avg")
recovery.says("distshift-second").above("DistShift", OTHERS, x="Avg")
recovery.says("eata-recovers").above(["AETTA", "DistShift", "Episodic"], OTHERS[1:], x="EATA")


CLASSES, CONCENTRATION = 10, 0.3  # of the Dirichlet distribution of each image's h~
SAMPLED = {"embedded": 20_000, "full": 200_000}  # images
PASSES = 10
A, FACTORS = 0.2, (1.5, 2.0, 4.0)  # factors of the over-confident class and of the others


@experiment("aetta/Thm3")
def theorems(scale: str) -> pd.DataFrame:
    """disagreement under dropout against the error, where the theorems' conditions hold"""
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
    labels, own = drawn(truth, random), drawn(h, random)
    disagreement = float(np.mean([(drawn(h, random) != own).mean() for _ in range(PASSES)]))
    balance = float(entr(h.mean(0)).sum() / np.log(CLASSES))
    return {
        "error": float((own != labels).mean()),
        "disagreement": disagreement,
        "theorem": factor * disagreement - constant,
        # Eq. 13
        "aetta": min(disagreement / balance**3, 1 - 1 / CLASSES),
    }


def drawn(probabilities: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Sample a class [n] from each row of probabilities [n,K]."""
    below = probabilities.cumsum(1) < random.random((len(probabilities), 1))
    return below.sum(1).clip(max=probabilities.shape[1] - 1)


theorems.says("theorem-3-1").near("disagreement", "error", x="calibrated", within=1)
theorems.says("overconfident").above("error", "disagreement", each=REST)
theorems.says("theorem-3-2").near("theorem", "error", x=REST, within=1)


@theorems.says("weight-nearer")
def nearer(t: Table) -> Parts:
    """The distance of the disagreement from the error minus that of AETTA's estimate."""
    own = t.frame.pivot(index=["x", "run"], columns="curve", values="value")
    plain, weighted = ((own[name] - own["error"]).abs() for name in ("disagreement", "aetta"))
    for x in t.xs[1:]:
        yield Part(str(x), above_zero((plain - weighted)[x].to_dict()), 0)


RESETS = {"": "no reset", "DistShift": "memories kept", "DistShift, all cleared": "all cleared"}
resets = experiment("aetta/Resets")(
    accuracy, curve="override", x="method", order=[*RESETS.values()], renamed=RESETS
)
resets.says("memories").near("memories kept", "all cleared", within=1)


OF_BATCH = "AETTA, E_max of the batch"
CHOICES: dict[str, dict[str, Any]] = {
    "AETTA": {},
    OF_BATCH: {"of_batch": True},
    "disagreement alone": {"alpha": 0},
}


@experiment("aetta/Why")
def why(runs: Runs) -> pd.DataFrame:
    """AETTA's estimates with the largest entropy that a batch can have, from the log of Table 2"""
    rows = of_choices(runs, "error", CHOICES) + of_choices(runs, "too high by", CHOICES, True)
    others = of_estimators(runs, "error", error)
    rows = with_average(rows) + [row for row in others if row[1] != "AETTA"]
    return tidy(rows, unit="points")


why.says("too-low").positive("AETTA", "too high by", x="Avg", sign=-1)
why.says("e-max").below(OF_BATCH, "AETTA", "error", x="Avg")
why.says("least-error").below(OF_BATCH, besides(*CHOICES), "error", x="Avg")


@experiment("aetta/Ablation")
def ablation(runs: Runs) -> pd.DataFrame:
    """AETTA's error by the rate and place of dropout, the network's width and the number of classes"""
    rows: Rows = []
    for network, own in grouped(runs, lambda run: run.override).items():
        methods = list(grouped(own, lambda run: run.method).values())
        for name, arguments in own[0].provenance["estimators"].items():
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


ablation.says("classes").below("AETTA", "SoftmaxScore", "", x="10 classes")
RATE: dict[str, Any] = {"panel": "rate", "than_panel": "", "x": "width 16"}
ablation.says("larger-rate").below(["0.3", "0.4"], "AETTA", **RATE)
ablation.says("smaller-rate").below("0.1", "AETTA", **RATE)
ablation.says("smaller-rate-best").below("0.1", "SoftmaxScore", **RATE)
ablation.says("place").below(None, "AETTA", "after", than_panel="", x="width 16")
ablation.says("width").falls_along("AETTA", "", x=["width 8", "width 16", "width 24"])


@experiment("aetta/GDE")
def independent_models(runs: Runs) -> pd.DataFrame:
    """errors of disagreement: of one model at two steps, and of three trained independently"""
    rows = [
        ("", label, name, *own)
        for label, same in grouped(runs, lambda run: run.label).items()
        for name in ("GDE", "IndependentGDE")
        for own in error(same, name).items()
    ]
    return tidy(rows, unit=ERROR)


independent_models.says("independent").falls(
    "TENT-others by TENT", start="GDE", to="IndependentGDE"
)
