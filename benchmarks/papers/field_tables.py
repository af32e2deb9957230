"""Methods that came after the seeds, on streams that the seeds do not have.

The claims are the field's, and were written before the results: the Intransigent Teacher paper (PeTTA on
CCC-Medium, a frozen teacher), ROID's tables (LAME), and ASR (ICLR 2026). published.json has numbers on
ImageNet that were read in their sources.
"""

import json
from collections import ChainMap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...drawing import describe, panels, saved
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from .accuracy_tables import by_rate
from .claims import Parts, above
from .experiment import EMBEDDED, HERE, experiment
from .picture import draw
from .table import Table, tidy

CCC = ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
IID = "i.i.d."
STEP_COSTS = HERE / "field" / "step_costs.json"  # times of a step, in steps of Source
WORST, COLLAPSED, WHEN, COST = "worst seed", "collapsed, %", "collapse, images", "time × Source"
TRIGGERS = ["ASR", "ASR, start 0.12", "EntropyDrift", "KLDrift", "Disagreement", "AETTA"]
Runs = list[Run]
Rows = list[tuple[Any, ...]]


@experiment("field/rates", "field/rates", scale=EMBEDDED)
def rates(runs: Runs) -> pd.DataFrame:
    """each newer method on the hold-out corruptions by its learning rate"""
    return by_rate(runs)


def draw_costs(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw mean accuracy over the difficulties against the cost of a step; one panel per protocol.

    Only streams with runs of all methods count.
    """
    figure, axes = panels(len(t.panels), size=(4.4 * len(t.panels), 4.2))
    for ax, panel in zip(axes, t.panels, strict=True):
        known = {m: ChainMap(*(t.values(panel, m, x) for x in CCC)) for m in t.curves(panel)}
        shared = set.intersection(*(set(values) for values in known.values()))
        for method, values in known.items():
            cost = t.mean(panel, method, COST)
            if cost is not None and shared:
                place = cost, float(np.mean([values[run] for run in shared]))
                ax.plot(*place, "o", ms=5, color="#0072B2")
                ax.annotate(method, place, (4, 3), textcoords="offset points", fontsize=7)
        ax.set_xscale("log")
        describe(ax, panel, "time of a step, multiple of Source")
    axes[0].set_ylabel("accuracy, %, mean over the difficulties", fontsize=8)
    return saved(figure, path)


@experiment(
    "field/glyphs",
    ["field/methods", "field/slow-methods", "field/spread"],
    scale=EMBEDDED,
    published="CCC",
    picture=draw_costs,
)
def all_methods(runs: Runs) -> pd.DataFrame:
    """all methods on CCC easy, medium, hard with independent, correlated and recurring labels: accuracy
    and cost"""
    costs = json.loads(STEP_COSTS.read_text(encoding="utf-8"))["methods"]
    rows: Rows = []
    for panel, own in grouped(runs, lambda run: run.factor("labels")).items():
        for method, same in grouped(own, lambda run: run.label).items():
            for run in same:
                x = f"CCC-{run.factor('difficulty')}"
                rows.append((panel, method, x, run.place, points(run)))
            seeds = grouped(same, lambda run: run.seed).values()
            # The lowest mean over the difficulties.
            worst = min(float(np.mean([points(run) for run in several])) for several in seeds)
            rows.append((panel, method, WORST, "all", worst))
            for run in same if same[0].adapts else ():
                rows.append((panel, method, COLLAPSED, run.place, 100 * bool(run.collapsed)))
                if (step := run.collapse_step) is not None:
                    rows.append((panel, method, WHEN, run.place, run.rows[step]["images"]))
            if method in costs:
                rows.append((panel, method, COST, "all", costs[method]["sources"]))
    return tidy(rows, unit="accuracy, %, and what the columns say")


def points(run: Run) -> float:
    """Accuracy in percent."""
    return 100 * (run.accuracy or 0.0)


all_methods.says("petta-below-source").above("Source", "PeTTA", IID, "CCC-Medium")
all_methods.says("lame-fails").above("Source", "LAME", IID, CCC)
all_methods.says("lame-gains").above("LAME", "Source", "correlated", CCC)
all_methods.says("lame-wins").above(
    "LAME", ["Source", "BNAdapt", "RDumb", "ROID"], "correlated", CCC
)


@all_methods.says("frozen-teacher")
def frozen_teacher(t: Table) -> Parts:
    """Each method with a frozen teacher minus the same method with its own."""
    for method in ("CoTTA", "RoTTA"):
        yield from above(t, f"I-{method}", method, IID, CCC)


@all_methods.says("roid-asr-leads")
def roid_asr_leads(t: Table) -> Parts:
    """ROID with ASR minus each other method."""
    others = [method for method in t.curves(IID) if method != "ROID+ASR"]
    return above(t, "ROID+ASR", others, IID, CCC)


def draw_accuracies(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw only the accuracies."""
    shown = t.frame[~t.frame["panel"].str.endswith("resets")]
    return draw(replace(t, frame=shown, unit="accuracy, %"), path)


@experiment("field/recovery", "field/recovery", scale=EMBEDDED, picture=draw_accuracies)
def recovery(runs: Runs) -> pd.DataFrame:
    """resets by methods and orders of labels, accuracy and number of resets"""
    rows: Rows = []
    for run in runs:
        # The seed alone pairs the orders of labels, which have the same images.
        place = run.override, run.factor("labels"), f"seed {run.seed}"
        rows.append((run.method, *place, points(run)))
        if run.override not in ("none", "oracle"):
            rows.append((f"{run.method}, resets", *place, 1000 * run.resets / len(run.rows)))
    return tidy(rows, unit="accuracy, %; resets per 1,000 batches", axis="labels")


BOTH = ["TENT", "EATA"]
RESETS = [f"{method}, resets" for method in BOTH]
recovery.says("oracle").above(
    "oracle", ["every 5", "every 20", "every 80", *TRIGGERS], BOTH, "independent"
)
recovery.says("triggers-above-intervals").above(
    ["EntropyDrift", "KLDrift"], "every 20", BOTH, "independent"
)


@recovery.says("soft-above-hard")
def soft_above_hard(t: Table) -> Parts:
    """Each trigger with soft resets minus the same one with hard resets."""
    for trigger in ("EntropyDrift", "KLDrift"):
        yield from above(t, f"{trigger} soft", trigger, BOTH, "independent")


recovery.ours(
    "takes-labels-for-collapse",
    points=False,
).rises(TRIGGERS, RESETS, start="independent", to="correlated")
recovery.ours(
    "takes-imbalance-for-collapse",
    points=False,
).rises(TRIGGERS, RESETS, start="independent", to="imbalanced")
recovery.ours("recovery-under-correlation").above(TRIGGERS, "none", BOTH, "correlated")
