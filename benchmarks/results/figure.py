"""The figure of accuracy over the stream: a summary, then one panel per setting."""

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, PercentFormatter

from ...drawing import pyplot, saved
from .aggregate import settings
from .curves import MOST, Curve, curve, mean_of
from .pictures import method_styles
from .runs import Run, grouped, with_results
from .text_table import natural

STEP = 0.03  # distance between two rows of resets, in accuracy


def draw(everything: list[Run], path: Path) -> Path:
    """Draw each method's mean and the windowed accuracy in each setting; returns the path.

    Thick lines are means over runs, with a band of one standard deviation; thin lines are single runs.
    Resets are ticks below zero, one row per method.
    """
    runs = with_results(everything)
    panels = dict(sorted(settings(runs).items(), key=lambda item: natural(item[0])))
    ordered = sorted(runs, key=lambda run: (run.adapts, natural(run.label)))
    styles = styles_of([(run.label, run.provenance["method"]) for run in ordered])
    shown = list(panels.items())[:MOST]
    count = len(shown)
    columns = min(count, 3) if count <= 3 else 2 if count == 4 else 3 if count <= 9 else 4
    rows = ceil(len(shown) / columns)
    heights = [
        1.1 + 0.17 * len(styles),
        *[3.4 if columns == 1 else 2.6 if columns < 4 else 1.9] * rows,
    ]
    figure = pyplot().figure(figsize=(10 if columns > 1 else 8, sum(heights) + 0.5))
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=heights)
    summarise(figure.add_subplot(grid[0, :]), panels, styles)
    first = None
    for number, (title, same) in enumerate(shown):
        place = grid[1 + number // columns, number % columns]
        ax = figure.add_subplot(place, sharex=first, sharey=first)
        panel(ax, title, same, styles)
        first = first or ax
        last_row = number >= count - columns
        ax.tick_params(labelbottom=last_row, labelleft=number % columns == 0)
        if last_row:
            ax.set_xlabel("images seen")
    if first is not None:
        first.set_ylim(bottom=-STEP * (max(reset_rows(same) for _, same in shown) + 0.7))
    handles = [pyplot().Line2D([], [], lw=1.8, **style) for style in styles.values()]
    legend: dict[str, Any] = {
        "loc": "outside lower center",
        "ncols": 6,
        "frameon": False,
        "fontsize": 9,
    }
    figure.legend(handles, list(styles), **legend)
    if len(panels) > MOST:
        figure.suptitle(f"The first {MOST} of {len(panels)} settings", fontsize=10)
    figure.set_layout_engine("constrained")
    return saved(figure, path, dpi=150)


def styles_of(methods: list[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """The colour and dashes of each (label, method class) by label, as arguments of matplotlib."""
    return {
        label: {"color": style.colour, "ls": (0, style.dashes) if style.dashes else "-"}
        for label, style in method_styles(methods).items()
    }


def summarise(ax: Axes, panels: dict[str, list[Run]], styles: dict[str, dict[str, Any]]) -> None:
    """Draw each method's mean accuracy: a dot per setting, and a line for the mean over settings."""
    for line, (label, style) in enumerate(styles.items()):
        means = [
            np.mean(values)
            for runs in panels.values()
            if (values := [r.accuracy for r in runs if r.label == label and r.accuracy is not None])
        ]
        ax.plot(means, [line] * len(means), "o", ms=4, color=style["color"], alpha=0.6)
        if means:
            ax.plot(np.mean(means), line, "|", ms=13, mew=2.5, color=style["color"])
    ax.set_yticks(range(len(styles)), list(styles), fontsize=9)
    ax.set_ylim(len(styles) - 0.4, -0.6)
    dots = "" if len(panels) == 1 else "; dots: settings"
    ax.set_title(f"mean accuracy{dots}", loc="left", fontsize=10)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_xlim(left=0)
    ax.grid(axis="both", color="0.92")
    ax.spines[["top", "right"]].set_visible(False)


def panel(ax: Axes, title: str, runs: list[Run], styles: dict[str, dict[str, Any]]) -> None:
    """Draw one setting: the runs of every method, their mean, and the resets."""
    methods = grouped(runs, lambda run: run.label)
    rows = 0
    for label in (label for label in styles if label in methods):
        of_one, style = methods[label], styles[label]
        curves = [curve(run) for run in of_one if run.accuracy is not None]
        mean_curve(ax, curves, style)
        resets = np.concatenate([r.column("images")[r.column("reset") > 0] for r in of_one])
        if len(resets):
            rows += 1
            tick = {"color": style["color"], "ms": 5, "mew": 1, "ls": ""}
            ax.plot(np.unique(resets), [-STEP * rows] * len(np.unique(resets)), marker="|", **tick)
    ax.set_title(title, loc="left", fontsize=9)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.axhline(0, color="0.6", lw=0.6)
    ax.grid(axis="y", color="0.92")
    ax.spines[["top", "right"]].set_visible(False)


def reset_rows(runs: list[Run]) -> int:
    """The number of methods with at least one reset."""
    return len({run.label for run in runs if run.resets})


def mean_curve(ax: Axes, curves: list[Curve], style: dict[str, Any]) -> None:
    """Draw the mean of several runs with a band, and each run as a thin line."""
    if len(curves) == 1:
        ax.plot(*curves[0], lw=1.8, **style)
        return
    for each in curves:
        ax.plot(*each, lw=0.4, alpha=0.25, **style)
    if curves:
        images, mean, spread = mean_of(curves)
        ax.fill_between(
            images, mean - spread, mean + spread, color=style["color"], alpha=0.12, lw=0
        )
        ax.plot(images, mean, lw=1.8, **style)
