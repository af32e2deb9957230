"""Accuracy, worst run, collapse and cost of every method, with one panel per order of labels."""

import json
from collections import ChainMap
from pathlib import Path

import numpy as np

from ....drawing import describe, panels, saved
from ...results.runs import Run, grouped
from ...suites.cell import Cell
from ..table import Table

CCC = ("CCC-Easy", "CCC-Medium", "CCC-Hard")
STEP_COSTS = Path(__file__).with_name("step_costs.json")
WORST, COLLAPSED, WHEN, COST = "worst seed", "collapsed, %", "collapse, images", "time × Source"


def table(runs: list[Run]) -> Table:
    """Accuracy in percent by difficulty, and summaries, of each method under each protocol.

    The worst seed has the lowest mean over its difficulties. A collapse is `Run.collapsed`, its time the
    number of images before it. The cost of a step comes from `holdfast bench steps`.
    """
    costs = json.loads(STEP_COSTS.read_text())["methods"]
    found = Table(unit="accuracy, %, and what the columns say")
    for panel, own in grouped(runs, lambda run: run.factor("labels")).items():
        for method, same in grouped(own, lambda run: run.label).items():
            for run in same:
                found.add(panel, method, f"CCC-{run.factor('difficulty')}", run.place, points(run))
            by_seed = grouped(same, lambda run: run.seed).values()
            worst = min(np.mean([points(run) for run in several]) for several in by_seed)
            found.add(panel, method, WORST, "all", float(worst))
            for run in same if same[0].adapts else ():
                found.add(panel, method, COLLAPSED, run.place, 100 * bool(run.collapsed))
                if run.collapse_step is not None:
                    found.add(panel, method, WHEN, run.place, run.rows[run.collapse_step]["images"])
            if method in costs:
                found.add(panel, method, COST, "all", costs[method]["sources"])
    return found


def points(run: Run) -> float:
    """Accuracy in percent."""
    return 100 * (run.accuracy or 0.0)


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw mean accuracy over the difficulties against the cost of a step; one panel per protocol.

    Only streams with runs of all methods count.
    """
    figure, axes = panels(len(found.panels), size=(4.4 * len(found.panels), 4.2))
    for ax, panel in zip(axes, found.panels, strict=True):
        methods = found.curves(panel)
        known = {
            method: ChainMap(*(found.values(panel, method, x) for x in CCC)) for method in methods
        }
        shared = set.intersection(*(set(values) for values in known.values()))
        for method in methods:
            cost = found.mean(panel, method, COST)
            if cost is None or not shared:
                continue
            place = cost, float(np.mean([known[method][run] for run in shared]))
            ax.plot(*place, "o", ms=5, color="#0072B2")
            ax.annotate(method, place, (4, 3), textcoords="offset points", fontsize=7)
        ax.set_xscale("log")
        describe(ax, panel, "time of a step, multiple of Source")
    axes[0].set_ylabel("accuracy, %, mean over the difficulties", fontsize=8)
    return saved(figure, path)
