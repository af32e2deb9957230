"""Methods that came after the seeds, on streams that the seeds do not have.

The claims are the field's, and were written before the results: the Intransigent Teacher paper (PeTTA on
CCC-Medium, a frozen teacher), ROID's tables (LAME), and ASR (ICLR 2026). published.json has numbers on
ImageNet that were read in their sources.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...drawing import describe, panels, saved
from ..results.run_statistics import exactly
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from .accuracy_tables import by_rate
from .claims import Part, Parts, besides, bounded
from .experiment import HERE, experiment
from .picture import of_panels
from .table import Rows, Table, tidy

CCC = ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
IID = "i.i.d."
STEP_COSTS = HERE / "field" / "step_costs.json"  # times of a step, in steps of Source
WORST, COLLAPSED, WHEN, COST = "worst seed", "collapsed, %", "collapse, images", "time × Source"
STILL = "batches as BNAdapt, %"  # the share of batches with BNAdapt's accuracy
NLL, ECE = "negative log-likelihood, nats", "expected calibration error, %"
CLASSES = "classes in a batch, % of those in random order"
LENGTH = "batches, % of those of independent labels"
NAME = 0.19  # the width of a name in the picture of costs, decades
TRIGGERS = ["ASR", "ASR, start 0.12", "EntropyDrift", "KLDrift", "Disagreement", "AETTA"]
BOTH = ["TENT", "EATA"]
RESETS = [f"{method}, resets" for method in BOTH]
Runs = list[Run]


def draw_costs(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw mean accuracy over the difficulties against the cost of a step; one panel per protocol.

    Only streams with runs of all methods count. Names that would overlap are moved up.
    """
    figure, axes = panels(len(t.panels), size=(4.4 * len(t.panels), 4.2))
    for ax, panel in zip(axes, t.panels, strict=True):
        own = t.frame[(t.frame["panel"] == panel) & t.frame["x"].isin(CCC)]
        means = own.pivot(index="curve", columns="run", values="value").dropna(axis=1).mean(axis=1)
        gap = 0.035 * (means.max() - means.min())
        placed: list[tuple[float, float]] = []  # of the names, from below: cost, accuracy
        for method, accuracy in means.dropna().sort_values().items():
            if (cost := t.mean(panel, method, COST)) is not None:
                near = [y for x, y in placed if abs(np.log10(cost / x)) < NAME]
                placed.append((cost, max([accuracy, *(y + gap for y in near)])))
                ax.plot(cost, accuracy, "o", ms=5, color="#0072B2")
                line = {"arrowstyle": "-", "color": "0.6", "lw": 0.5}
                place = 1.06 * cost, placed[-1][1]
                ax.annotate(
                    method, (cost, accuracy), place, fontsize=7, va="center", arrowprops=line
                )
        ax.set_xscale("log")
        ax.set_ylim(top=max([means.max(), *(y for _, y in placed)]) + 2 * gap)
        describe(ax, panel, "time of a step, multiple of Source")
    axes[0].set_ylabel("accuracy, %, mean over the difficulties", fontsize=8)
    return saved(figure, path)


def by_labels(runs: Runs, costs: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Accuracy on each data set by the order of labels, with the worst seed and the collapses."""
    rows: Rows = []
    notes = []
    for key, same in grouped(runs, lambda run: (run.factor("labels"), run.label)).items():
        shares = [value for run in same if (value := still(run)) is not None]
        if shares and min(shares) >= 95:
            text = f"{min(shares):.0f} % of batches or more have the accuracy of BNAdapt"
            notes.append(
                f"{key[1]}, {key[0]}: not applicable here; its model does not move: {text}."
            )
        rows += [(*key, STILL, "all", min(shares))] if shares else []
        for run in same:
            rows.append((*key, run.stream.partition(",")[0], run.place, points(run)))
            if (share := classes(run)) is not None:
                rows.append((*key, CLASSES, run.place, share))
            if run.nll is not None and run.ece is not None:
                rows += [(*key, NLL, run.place, run.nll), (*key, ECE, run.place, 100 * run.ece)]
        seeds = grouped(same, lambda run: run.seed).values()
        # The lowest mean over the data sets.
        rows.append((*key, WORST, "all", min(np.mean([*map(points, own)]) for own in seeds)))
        for run in (run for run in same if run.adapts):
            rows.append((*key, COLLAPSED, run.place, 100 * bool(run.collapsed)))
            if (step := run.collapse_step) is not None:
                rows.append((*key, WHEN, run.place, run.rows[step]["images"]))
        if costs and same[0].label in costs:
            rows.append((*key, COST, "all", costs[same[0].label]["sources"]))
    return tidy(rows, unit="accuracy, %, and what the columns say", notes=notes)


def still(run: Run) -> float | None:
    """The share of batches with BNAdapt's accuracy, in percent; None for BNAdapt and the source model."""
    if run.bnadapt is None or run.method in ("Source", "BNAdapt"):
        return None
    return 100 * float(np.mean(run.column("accuracy") == run.bnadapt.column("accuracy")))


@experiment("field/glyphs", picture=draw_costs)
def all_methods(runs: Runs) -> pd.DataFrame:
    """all methods on CCC easy, medium, hard with independent, correlated and recurring labels: accuracy
    and cost"""
    return by_labels(runs, json.loads(STEP_COSTS.read_text(encoding="utf-8"))["methods"])


def points(run: Run) -> float:
    """Accuracy in percent."""
    return 100 * (run.accuracy or 0.0)


def classes(run: Run) -> float | None:
    """How many classes a batch of a stream of correlated labels has, in percent of a random order's."""
    for wrapper in run.provenance.get("wrappers") or ():
        if "classes_in_a_batch" in wrapper:
            found, independent = wrapper["classes_in_a_batch"]
            return 100 * found / independent
    return None


def half_of_the_classes(t: Table) -> Parts:
    """The premise of a claim about correlated labels: a batch has at most half of the classes."""
    shares = t.frame["value"][(t.frame["panel"] == CLASSES) | (t.frame["x"] == CLASSES)]
    highest = float(shares.max())
    found = None if shares.empty else exactly(highest, len(shares))
    yield Part("the largest number of classes in a batch, %", found, most=50)


def asr_moves(t: Table) -> Parts:
    """The premise of a claim about ROID+ASR: it differs from BNAdapt."""
    share = t.mean(IID, "ROID+ASR", STILL)
    found = None if share is None else exactly(share)
    yield Part("batches on which ROID+ASR has BNAdapt's accuracy, %", found, most=95)


CORRELATED: dict[str, Any] = {
    "premise": half_of_the_classes,
    "unless": "the labels were hardly correlated",
}
OTHERS = ["Source", "BNAdapt", "RDumb", "ROID"]
all_methods.says("petta-below-source").above("Source", "PeTTA", IID, "CCC-Medium")
all_methods.says("lame-fails").above("Source", "LAME", IID, CCC)
all_methods.says("lame-gains", **CORRELATED).above("LAME", "Source", "correlated", CCC)
all_methods.says("lame-wins", **CORRELATED).above("LAME", OTHERS, "correlated", CCC)
all_methods.says("frozen-teacher").above("I-CoTTA", "CoTTA", IID, CCC).above(
    "I-RoTTA", "RoTTA", IID, CCC
)
MOVES: dict[str, Any] = {"premise": asr_moves, "unless": "ROID+ASR did not move the model"}
all_methods.says("roid-asr-leads", **MOVES).above("ROID+ASR", besides("ROID+ASR"), IID, CCC)

CIFAR = "CIFAR-10-C"
on_cifar = experiment("field/cifar10")(by_labels)
on_cifar.says("lame-fails").above("Source", "LAME", IID, CIFAR)
on_cifar.says("lame-gains", **CORRELATED).above("LAME", "Source", "correlated", CIFAR)
on_cifar.says("roid-leads").above("ROID", ["Tent", "EATA", "SAR", "CoTTA", "RoTTA"], IID, CIFAR)
for method, below in {
    "NOTE": ["Tent", "BNAdapt", "LAME", "CoTTA"],
    "RoTTA": ["Tent", "BNAdapt", "CoTTA"],
}.items():
    claim = on_cifar.says(f"{method.lower()}-gains", **CORRELATED)
    claim.above(method, below, "correlated", CIFAR)
on_cifar.says("petta-recurs").above("PeTTA", "RoTTA", "recurring", CIFAR)


@experiment("field/recovery", picture=of_panels(*BOTH, unit="accuracy, %"))
def recovery(runs: Runs) -> pd.DataFrame:
    """resets by methods and orders of labels, accuracy and number of resets"""
    rows: Rows = []
    shares, lengths = {}, {}  # those of a stream are the same in all its runs
    for run in runs:
        # The seed alone pairs the orders of labels: independent and correlated ones have the same images.
        place = run.override, run.factor("labels"), f"seed {run.seed}"
        rows.append((run.method, *place, points(run)))
        lengths[place[1:]] = len(run.rows)
        if (share := classes(run)) is not None:
            shares[place[1:]] = share
        if run.override not in ("none", "oracle"):
            rows.append((f"{run.method}, resets", *place, 1000 * run.resets / len(run.rows)))
    rows += [(CLASSES, "all", *place, share) for place, share in shares.items()]
    for (order, seed), length in lengths.items():
        if (independent := lengths.get(("independent", seed))) and order != "independent":
            rows.append((LENGTH, "all", order, seed, 100 * length / independent))
    return tidy(rows, unit="accuracy, %; resets per 1,000 batches", axis="labels")


def same_length(t: Table) -> Parts:
    """The premise of a claim about numbers of resets: both streams have about as many batches."""
    yield from bounded(t, "all", LENGTH, "imbalanced", least=90, most=110)


DRIFTS = ["EntropyDrift", "KLDrift"]
# ASR's default threshold resets these networks at every batch but the first in every order.
RARER = [trigger for trigger in TRIGGERS if trigger != "ASR"]
# A corruption lasts 20 batches, so a reset every 20 batches is the oracle's.
OF_THE_ORACLE = ["every 5", "every 80", *TRIGGERS]
recovery.says("oracle").above("oracle", OF_THE_ORACLE, BOTH, "independent")
recovery.says("triggers-above-intervals").above(DRIFTS, "every 20", BOTH, "independent")
soft = recovery.says("soft-above-hard")
for trigger in DRIFTS:
    soft.above(f"{trigger} soft", trigger, BOTH, "independent")
EQUAL: dict[str, Any] = {"premise": same_length, "unless": "the streams differ in length"}
for cause, order, premise in (
    ("labels", "correlated", CORRELATED),
    ("imbalance", "imbalanced", EQUAL),
):
    claim = recovery.says(f"takes-{cause}-for-collapse", **premise)
    claim.rises(RARER, RESETS, start="independent", to=order)
recovery.says("recovery-under-correlation", **CORRELATED).above(
    TRIGGERS, "none", BOTH, "correlated"
)


experiment("field/rates")(by_rate)
