"""The figure of accuracy over the stream, with one panel per setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...drawing import panels, pyplot, saved
from .batch_means import curve, mean_curve
from .groups import Groups, Methods, groups, styles_of
from .runs import Run

STEP = 0.03  # distance between two rows of resets, in accuracy
MARKERS = "osD^vPX<>ph*"  # one for each method, at points of its own, so that equal curves are seen
APART = 8  # points of a curve from one of its markers to the next
Looks = dict[str, dict[str, Any]]  # the arguments of matplotlib for each method's lines


def draw(runs: Sequence[Run], path: Path) -> Path:
    """Draw the windowed accuracy of each method in each setting; returns the path.

    Lines are means over runs, with a band of one standard deviation. Resets are ticks below zero, one row
    per method.
    """
    found = groups(runs)
    looks: Looks = {
        label: {"color": style.colour, "ls": (0, style.dashes) if style.dashes else "-"}
        | {"lw": 1.6, "ms": 4, "marker": MARKERS[n % len(MARKERS)]}
        for n, (label, style) in enumerate(styles_of(found).items())
    }
    columns = min(len(found), 3) if len(found) <= 9 else 4
    width, height = (8.0, 4.0) if columns == 1 else (10.0, 2.8 if columns < 4 else 2.0)
    size = (width, height * -(-len(found) // columns) + 0.25 * len(looks) / 6 + 0.6)
    with pyplot().rc_context({"text.parse_math": False}):
        figure, axes = panels(len(found), columns, size=size, sharex=True, sharey=True)
        rows = [
            draw_panel(ax, title, methods, looks)
            for ax, (title, methods) in zip(axes, found.items(), strict=True)
        ]
        axes[0].set_ylim(bottom=-STEP * (max(rows) + 0.7))
        figure.supxlabel("images seen", fontsize=9)
        figure.supylabel("accuracy", fontsize=9)
        options: dict[str, Any] = {"ncols": 6, "frameon": False, "fontsize": 9}
        key = legend(found, looks)
        figure.legend(key.values(), key, loc="outside upper center", **options)
        return saved(figure, path, dpi=150)


def legend(found: Groups, looks: Looks) -> dict[str, Any]:
    """What the lines, the shading and the ticks are, by name."""
    plt = pyplot()
    key: dict[str, Any] = {label: plt.Line2D([], [], **look) for label, look in looks.items()}
    several = [runs for methods in found.values() for runs in methods.values()]
    if any(len(runs) > 1 for runs in several):
        key["shading: ± 1 sd over runs"] = plt.Rectangle((0, 0), 1, 1, color="0.5", alpha=0.3, lw=0)
    if any(run.resets for runs in several for run in runs):
        key["reset"] = plt.Line2D([], [], color="0.3", marker="|", ls="")
    return key


def draw_panel(ax: Any, title: str, methods: Methods, looks: Looks) -> int:
    """Draw the means and resets of each method; returns the number of rows of resets."""
    from matplotlib.ticker import EngFormatter, PercentFormatter  # deferred: slow import

    row = 0
    for n, (label, runs) in enumerate(methods.items()):
        look = looks[label]
        if curves := [curve(run) for run in runs if run.accuracy is not None]:
            found = mean_curve(curves)
            band = {"color": look["color"], "alpha": 0.12, "lw": 0}
            ax.fill_between(found.index, found["low"], found["high"], **band)
            apart = max(1, min(APART, len(found) // 3))
            ax.plot(found["mean"], markevery=(n % apart, apart), **look)
        if any(run.resets for run in runs):
            row += 1
            resets = np.concatenate([r.column("images")[r.column("reset") > 0] for r in runs])
            ticks = {"color": look["color"], "ms": 5, "mew": 1, "ls": ""}
            ax.plot(resets, np.full(len(resets), -STEP * row), marker="|", **ticks)
    ax.set_title(title, loc="left", fontsize=9)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.axhline(0, color="0.6", lw=0.6)
    ax.grid(axis="y", color="0.92")
    return row
