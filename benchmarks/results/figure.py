"""The figure of accuracy over the stream, with one panel per setting."""

from pathlib import Path
from typing import Any

import numpy as np

from ...drawing import panels, pyplot, saved
from .batch_means import curve, mean_curve
from .groups import settings
from .palette import method_styles
from .runs import Run, grouped, with_results
from .text_table import natural

MOST = 24  # maximum number of panels
STEP = 0.03  # distance between two rows of resets, in accuracy
Styles = dict[str, dict[str, Any]]  # the arguments of matplotlib for each method's lines


def draw(everything: list[Run], path: Path) -> Path:
    """Draw the windowed accuracy of each method in each setting; returns the path.

    Thick lines are means over runs, with a band of one standard deviation; thin lines are single runs.
    Resets are ticks below zero, one row per method.
    """
    runs = with_results(everything)
    found = sorted(settings(runs).items(), key=lambda item: natural(item[0]))
    shown = found[:MOST]
    ordered = sorted(runs, key=lambda run: (run.adapts, natural(run.label)))
    looks = method_styles((run.label, run.provenance["method"]) for run in ordered)
    styles = {
        label: {"color": look.colour, "ls": (0, look.dashes) if look.dashes else "-"}
        for label, look in looks.items()
    }
    columns = min(len(shown), 3) if len(shown) <= 9 else 4
    width, height = (8.0, 4.0) if columns == 1 else (10.0, 2.8 if columns < 4 else 2.0)
    size = (width, height * -(-len(shown) // columns) + 0.25 * len(styles) / 6 + 0.6)
    with pyplot().rc_context({"text.parse_math": False}):
        figure, axes = panels(len(shown), columns, size=size, sharex=True, sharey=True)
        for ax, (title, same) in zip(axes, shown, strict=True):
            draw_panel(ax, title, same, styles)
        rows = max(len({run.label for run in same if run.resets}) for _, same in shown)
        axes[0].set_ylim(bottom=-STEP * (rows + 0.7))
        left_out = f" (the first {MOST} of {len(found)} settings)" if len(found) > MOST else ""
        figure.supxlabel(f"images seen{left_out}", fontsize=9)
        handles = [pyplot().Line2D([], [], lw=1.8, **style) for style in styles.values()]
        options: dict[str, Any] = {"ncols": 6, "frameon": False, "fontsize": 9}
        figure.legend(handles, list(styles), loc="outside upper center", **options)
        return saved(figure, path, dpi=150)


def draw_panel(ax: Any, title: str, runs: list[Run], styles: Styles) -> None:
    """Draw one setting: the runs of every method, their mean, and the resets."""
    from matplotlib.ticker import EngFormatter, PercentFormatter  # deferred: slow import

    methods, row = grouped(runs, lambda run: run.label), 0
    for label, style in styles.items():
        same = methods.get(label, [])
        if curves := [curve(run) for run in same if run.accuracy is not None]:
            found = mean_curve(curves)
            for each in curves if len(curves) > 1 else ():
                ax.plot(each, lw=0.4, alpha=0.25, **style)
            low, high = found["mean"] - found["sd"], found["mean"] + found["sd"]
            ax.fill_between(found.index, low, high, color=style["color"], alpha=0.12, lw=0)
            ax.plot(found["mean"], lw=1.8, **style)
        if any(run.resets for run in same):
            row += 1
            resets = np.concatenate([r.column("images")[r.column("reset") > 0] for r in same])
            ticks = {"color": style["color"], "ms": 5, "mew": 1, "ls": ""}
            ax.plot(resets, np.full(len(resets), -STEP * row), marker="|", **ticks)
    ax.set_title(title, loc="left", fontsize=9)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.axhline(0, color="0.6", lw=0.6)
    ax.grid(axis="y", color="0.92")
