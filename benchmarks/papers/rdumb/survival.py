"""The time for which methods stay above the source model (Kaplan & Meier 1958; our own figure)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....alarms import WINDOW
from ....drawing import describe, panels, saved
from ...results.collapse import Array, below, intervals
from ...results.palette import method_colour
from ...results.runs import Run
from ...suites.cell import Cell
from ..table import Table
from ..tables import sorted_by

LASTS, TO_THE_END = "images until the collapse, thousands", "above it to the end, %"
LEVEL = 0.95


def table(runs: list[Run], order: Sequence[str] = ()) -> Table:
    """Thousands of images until a run collapses (or the stream ends), and the share without collapse.

    Rows are methods, columns settings.
    """
    found = Table(unit="of a run against the source model on the same images")
    for run in sorted_by([run for run in runs if run.adapts], "label", order):
        reference = run.of_source("accuracy")
        if reference is None:
            continue
        at = collapse(run.column("accuracy"), reference)
        images = run.rows[-1 if at is None else at]["images"]
        found.add(LASTS, run.label, run.setting, run.place, images / 1000)
        found.add(TO_THE_END, run.label, run.setting, run.place, 100.0 * (at is None))
    return found


def collapse(values: Array, reference: Array) -> int | None:
    """The batch at which accuracies [n] first fall `below` a reference for WINDOW batches, or None."""
    found = intervals(below(values, reference), WINDOW)
    return found[0].first if found else None


def survival(found: Table, method: str) -> Any:
    """The Kaplan-Meier estimate over all runs of a method: scipy's `EmpiricalDistributionFunction`."""
    from scipy.stats import CensoredData, ecdf  # deferred: slow import

    images, ended = (found.by_run(panel, method) for panel in (LASTS, TO_THE_END))
    fell = [images[run] for run in images if not ended[run]]
    return ecdf(CensoredData(fell, right=[images[run] for run in images if ended[run]])).sf


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw one panel per method, with a 95 % band (log-log) if some runs have collapsed."""
    methods = found.curves(LASTS)
    figure, axes = panels(len(methods), 5, size=(11, 4.6), sharex=True, sharey=True)
    for ax, method in zip(axes, methods, strict=True):
        colour, own = method_colour(method.partition("-")[0]), survival(found, method)
        ax.step([0, *own.quantiles], [1, *own.probabilities], where="post", color=colour, lw=1.6)
        if own.probabilities[-1] < 1:  # without an event there is no band
            band = own.confidence_interval(LEVEL, method="log-log")
            low, high = band.low.probabilities, band.high.probabilities
            style: dict[str, Any] = {"step": "post", "color": colour, "alpha": 0.18, "lw": 0}
            ax.fill_between(own.quantiles, low, high, **style)
        ax.set_ylim(-0.03, 1.03)
        describe(ax, f"{method} ({len(found.by_run(LASTS, method))} runs)")
    figure.supxlabel("images seen, thousands", fontsize=9)
    figure.supylabel("runs still above the source model, share", fontsize=9)
    return saved(figure, path)
