"""Methods that came after the seeds, on streams that the seeds do not have.

The claims are the field's, and were written before the results: the Intransigent Teacher paper (PeTTA on
CCC-Medium, a frozen teacher), ROID's tables (LAME), and ASR (ICLR 2026). published.json has numbers on
ImageNet that were read in their sources.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....drawing import TWO, method_colour, panels
from ...results.run_statistics import exactly
from ...results.runs import Run, grouped
from ...suites.cell import Cell
from ..accuracy import by_rate, rate_notes
from ..engine.claims import LATER, OURS, Part, Parts, above, bounded, rises
from ..engine.experiment import PAPERS, table
from ..engine.picture import of_panels
from ..engine.sources import EMBEDDED, PHOTOS, Suite
from ..engine.table import Except, Rows, Table, tidy

CCC = ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
IID = "i.i.d."
STEP_COSTS = PAPERS / "field" / "step_costs.json"  # times of a step, in steps of Source
WORST, COLLAPSED, WHEN, COST = "worst seed", "collapsed, %", "collapse, images", "time × Source"
STILL = "batches as BNAdapt, %"  # the share of batches with BNAdapt's accuracy
NLL, ECE = "negative log-likelihood, nats", "expected calibration error, %"
CLASSES = "classes in a batch, % of those in random order"
LENGTH = "batches, % of those of independent labels"
WIDE, HIGH = 0.1, 0.055  # of a name in the picture of costs: decades, share of the accuracies
TRIGGERS = ["ASR", "ASR, start 0.12", "EntropyDrift", "KLDrift", "Disagreement", "AETTA"]
BOTH = ["TENT", "EATA"]
RESETS = [f"{method}, resets" for method in BOTH]
Runs = list[Run]


def draw_costs(t: Table, cells: Sequence[Cell], path: Path) -> Path:
    """Draw mean accuracy over the difficulties against the cost of a step; one panel per protocol.

    Only streams with runs of all methods count.
    """
    with panels(path, len(t.panels), 1, height=2.6, width=TWO, sharex=True) as (_, axes):
        for ax, panel in zip(axes, t.panels, strict=True):
            on_ccc = t.frame[(t.frame["panel"] == panel) & t.frame["x"].isin(CCC)]
            runs = on_ccc.pivot(index="curve", columns="run", values="value").dropna(axis=1)
            costs = {method: t.mean(panel, method, COST) for method in runs.index}
            points = {
                method: (np.log10(cost), accuracy)
                for method, accuracy in runs.mean(axis=1).items()
                if (cost := costs[method]) is not None
            }
            for method, (x, y) in points.items():
                ax.plot(10**x, y, "o", ms=5, color=method_colour(method))
            gap = HIGH * float(np.ptp([y for _, y in points.values()]))
            for method, (x, y) in places(points, gap).items():
                ax.annotate(
                    method,
                    (10 ** points[method][0], points[method][1]),
                    (10**x, y),
                    fontsize=6.5,
                    ha="center",
                    va="center",
                    arrowprops={"arrowstyle": "-", "color": "0.7", "lw": 0.5},
                )
            ax.set_xscale("log")
            ax.margins(0.08, 0.14)
            ax.set(title=panel, xlabel="time of a step, multiple of Source")
            ax.set_ylabel("accuracy, %, mean over difficulties")
    return path


def places(points: Mapping[str, tuple[float, float]], gap: float) -> dict[str, tuple[float, float]]:
    """A place (x, y) for the name of each point, near it, that overlaps no other name and no point.

    gap: the height of a name, which is WIDE units of x wide.
    """
    result: dict[str, tuple[float, float]] = {}
    for name, (x, y) in points.items():
        near = (
            (x + side * (WIDE / 2 + 0.02), y + up * gap)
            for step in range(len(points))
            for up in {step, -step}
            for side in (1, -1)
        )
        result[name] = next(
            (a, b)
            for a, b in near
            if all(abs(a - p) > 0.6 * WIDE or abs(b - q) > 0.7 * gap for p, q in points.values())
            and all(abs(a - p) > WIDE or abs(b - q) > gap for p, q in result.values())
        )
    return result


def by_labels(runs: Runs, costs: Mapping[str, Any] | None = None) -> Table:
    """Accuracy on each data set by the order of labels, with the worst seed and the collapses."""
    rows: Rows = []
    notes = []
    for key, same in grouped(runs, lambda run: (run.factor("labels"), run.label)).items():
        shares = [value for run in same if (value := still(run)) is not None]
        if shares and min(shares) >= 95:
            text = f"{min(shares):.0f} % of batches or more have the accuracy of BNAdapt"
            notes.append(
                f"{key[1]}, {key[0]}: not applicable here, because its model never changes: {text}."
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
        rows.append((*key, WORST, "all", min(np.mean([*map(points, r)]) for r in seeds)))
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


@table(
    "field/glyphs",
    Suite("field/methods", scales=[EMBEDDED]),
    "all methods on CCC easy, medium, hard with independent, correlated and recurring labels: accuracy "
    "and cost",
    picture=draw_costs,
)
def all_methods(runs: Runs) -> Table:
    return by_labels(runs, json.loads(STEP_COSTS.read_text(encoding="utf-8"))["methods"])


def points(run: Run) -> float:
    """Accuracy in percent."""
    return 100 * (run.accuracy or 0.0)


def classes(run: Run) -> float | None:
    """How many classes a batch of a stream of correlated labels has, in percent of a random order's."""
    for wrapper in run.provenance.get("wrappers") or ():
        if "classes_in_a_batch" in wrapper:
            classes_here, independent = wrapper["classes_in_a_batch"]
            return 100 * classes_here / independent
    return None


def half_of_the_classes(t: Table) -> Parts:
    """The premise of a claim about correlated labels: a batch has at most half of the classes."""
    shares = t.frame["value"][(t.frame["panel"] == CLASSES) | (t.frame["x"] == CLASSES)]
    highest = float(shares.max())
    number = None if shares.empty else exactly(highest, len(shares))
    yield Part("the largest number of classes in a batch, %", number, most=50)


def asr_moves(t: Table) -> Parts:
    """The premise of a claim about ROID+ASR: it differs from BNAdapt."""
    share = t.mean(IID, "ROID+ASR", STILL)
    number = None if share is None else exactly(share)
    yield Part("batches on which ROID+ASR has BNAdapt's accuracy, %", number, most=95)


CORRELATED: dict[str, Any] = {
    "premise": half_of_the_classes,
    "unless": "the labels were hardly correlated",
}
OTHERS = ["Source", "BNAdapt", "RDumb", "ROID"]
MOVES: dict[str, Any] = {"premise": asr_moves, "unless": "ROID+ASR did not move the model"}
CIFAR = "CIFAR-10-C"
all_methods.claim(
    "petta-below-source",
    "PeTTA is below its source model on CCC-Medium",
    above("Source", "PeTTA", panel=IID, x="CCC-Medium"),
    group=LATER,
    quote="cells: CCC-Medium, batches of 64: PeTTA 13.4, source 16.8; table 2 of the "
    "Intransigent Teacher paper",
)
all_methods.claim(
    "lame-fails",
    "LAME is below the source model where labels are independent",
    above("Source", "LAME", panel=IID, x=CCC),
    group=LATER,
    quote="cells: errors on ImageNet-C of LAME 93.5, source 82.0; the benchmark of ROID "
    "(Marsden et al. 2024)",
)
all_methods.claim(
    "lame-gains",
    "LAME is above the source model where labels are correlated",
    above("LAME", "Source", panel="correlated", x=CCC),
    **CORRELATED,
    group=LATER,
    quote="LAME (Boudiaf et al. 2022), on streams of correlated labels",
)
all_methods.claim(
    "lame-wins",
    "LAME is the best method where labels are correlated",
    above("LAME", OTHERS, panel="correlated", x=CCC),
    **CORRELATED,
    group=LATER,
    quote="LAME (Boudiaf et al. 2022), on streams of correlated labels",
)
all_methods.claim(
    "frozen-teacher",
    "a teacher that is never updated helps CoTTA and RoTTA",
    above("I-CoTTA", "CoTTA", panel=IID, x=CCC),
    above("I-RoTTA", "RoTTA", panel=IID, x=CCC),
    group=LATER,
    quote="cells: CCC-Medium, batches of 64: I-CoTTA 26.3, CoTTA 8.3, I-RoTTA 21.7, RoTTA 1.1; "
    "table 2 of the Intransigent Teacher paper",
)
all_methods.claim(
    "roid-asr-leads",
    "ROID with ASR is above every other method where labels are independent",
    above("ROID+ASR", Except("ROID+ASR"), panel=IID, x=CCC),
    **MOVES,
    group=LATER,
    quote="ASR (arXiv 2603.03796), best on CCC-Easy, -Medium and -Hard",
)


@table(
    "field/cifar10",
    Suite("field/cifar10", scales=[PHOTOS]),
    "the methods without vision transformers on CIFAR-10-C: independent, correlated, "
    "recurring labels",
)
def on_cifar(runs: Runs) -> Table:
    return by_labels(runs)


ADAPTING = ["Tent", "EATA", "SAR", "CoTTA", "RoTTA"]
on_cifar.claim(
    "lame-fails",
    "LAME is below the source model where labels are independent",
    above("Source", "LAME", panel=IID, x=CIFAR),
    group=LATER,
    quote="cells: errors on CIFAR10-C of LAME 64.3, source 43.5; the benchmark of ROID (Marsden"
    " et al. 2024)",
)
on_cifar.claim(
    "lame-gains",
    "LAME is above the source model where labels are correlated",
    above("LAME", "Source", panel="correlated", x=CIFAR),
    **CORRELATED,
    group=LATER,
    quote="LAME (Boudiaf et al. 2022), on streams of correlated labels",
)
on_cifar.claim(
    "roid-leads",
    "ROID is above Tent, EATA, SAR, CoTTA and RoTTA where labels are independent",
    above("ROID", ADAPTING, panel=IID, x=CIFAR),
    group=LATER,
    quote="cells: errors on CIFAR10-C of ROID 16.2, Tent 20.0, EATA 17.9, SAR 20.4, CoTTA 16.5,"
    " RoTTA 19.3; the benchmark of ROID (Marsden et al. 2024)",
)
on_cifar.claim(
    "note-gains",
    "NOTE is above Tent, BNAdapt, LAME and CoTTA where labels are correlated",
    above("NOTE", ["Tent", "BNAdapt", "LAME", "CoTTA"], panel="correlated", x=CIFAR),
    **CORRELATED,
    group=LATER,
    quote="NOTE (Gong et al. 2022), on temporally correlated streams",
)
on_cifar.claim(
    "rotta-gains",
    "RoTTA is above Tent, BNAdapt and CoTTA where labels are correlated",
    above("RoTTA", ["Tent", "BNAdapt", "CoTTA"], panel="correlated", x=CIFAR),
    **CORRELATED,
    group=LATER,
    quote="RoTTA (Yuan et al. 2023), on correlated streams",
)
on_cifar.claim(
    "petta-recurs",
    "PeTTA is above RoTTA where the images recur",
    above("PeTTA", "RoTTA", panel="recurring", x=CIFAR),
    group=LATER,
    quote="PeTTA (Hoang et al. 2024), over 20 visits",
)


@table(
    "field/recovery",
    Suite("field/recovery", scales=[EMBEDDED]),
    "resets by methods and orders of labels, accuracy and number of resets",
    picture=of_panels(*BOTH, unit="accuracy, %"),
)
def recovery(runs: Runs) -> Table:
    rows: Rows = []
    shares, lengths = {}, {}  # those of a stream are the same in all its runs
    for run in runs:
        # The seed alone pairs the orders of labels: independent and correlated ones have the same images.
        order, seed = run.factor("labels"), f"seed {run.seed}"
        rows.append((run.method, run.override, order, seed, points(run)))
        lengths[order, seed] = len(run.rows)
        if (share := classes(run)) is not None:
            shares[order, seed] = share
        if run.override not in ("none", "oracle"):
            resets = 1000 * run.resets / len(run.rows)
            rows.append((f"{run.method}, resets", run.override, order, seed, resets))
    rows += [(CLASSES, "all", *key, share) for key, share in shares.items()]
    for (order, seed), length in lengths.items():
        if (independent := lengths.get(("independent", seed))) and order != "independent":
            rows.append((LENGTH, "all", order, seed, 100 * length / independent))
    return tidy(rows, unit="accuracy, %; resets per 1,000 batches", axis="labels")


DRIFTS = ["EntropyDrift", "KLDrift"]
# ASR's default threshold resets these networks at every batch but the first in every order.
RARER = [trigger for trigger in TRIGGERS if trigger != "ASR"]
# A corruption lasts 20 batches, so a reset every 20 batches is the oracle's.
OF_THE_ORACLE = ["every 5", "every 80", *TRIGGERS]
EQUAL: dict[str, Any] = {
    "premise": bounded("all", panel=LENGTH, x="imbalanced", least=90, most=110),
    "unless": "the streams differ in length",
}
recovery.claim(
    "oracle",
    "a reset at each change of the corruption, an oracle, is above every other hard "
    "reset, except the same one every 20 batches, where labels are independent",
    above("oracle", OF_THE_ORACLE, panel=BOTH, x="independent"),
    group=LATER,
    quote="a question of the reviewers of ASR (OpenReview 0JayjvOKxt)",
)
recovery.claim(
    "triggers-above-intervals",
    "RDumb++'s triggers are above the middle interval, where labels are independent",
    above(DRIFTS, "every 20", panel=BOTH, x="independent"),
    group=LATER,
    quote="RDumb++ (arXiv 2601.15544), 2 to 3 points above RDumb on CCC-Medium",
)
recovery.claim(
    "soft-above-hard",
    "a soft reset is above a hard one, where labels are independent",
    above("EntropyDrift soft", "EntropyDrift", panel=BOTH, x="independent"),
    above("KLDrift soft", "KLDrift", panel=BOTH, x="independent"),
    group=LATER,
    quote="RDumb++ (arXiv 2601.15544), which proposes soft resets",
)
recovery.claim(
    "takes-labels-for-collapse",
    "triggers reset more often where labels are correlated than where they are independent",
    rises(RARER, panel=RESETS, first="independent", last="correlated"),
    **CORRELATED,
    group=OURS,
)
recovery.claim(
    "takes-imbalance-for-collapse",
    "triggers reset more often where classes are imbalanced than where they are not",
    rises(RARER, panel=RESETS, first="independent", last="imbalanced"),
    **EQUAL,
    group=OURS,
)
recovery.claim(
    "recovery-under-correlation",
    "every trigger is above the method without resets also where labels are correlated",
    above(TRIGGERS, "none", panel=BOTH, x="correlated"),
    **CORRELATED,
    group=OURS,
)


@table(
    "field/rates",
    Suite(
        "field/methods",
        scales=[EMBEDDED],
        trials={EMBEDDED: 7},
        only={
            "method": [
                "SAR",
                "DeYO",
                "ROID",
                "CMF",
                "SANTA",
                "RoTTA",
                "SoTTA",
                "NOTE",
                "PeTTA",
                "GTTA",
            ]
        },
    ),
    "each newer method on the hold-out corruptions by its learning rate",
    remarks=rate_notes,
)
def newer_rates(runs: Runs) -> Table:
    return by_rate(runs)
