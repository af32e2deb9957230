"""The figure of accuracy over the stream, with one panel per setting."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...drawing import TWO, Style, legend, panels, plot, shade, styles
from .batch_means import curve, mean_curve
from .groups import Groups, Methods, groups, order
from .runs import Run

_STEP = 0.03  # distance between two rows of resets, in accuracy


def styles_of(settings: Groups) -> dict[str, Style]:
    """The style of each method in all settings; the source model comes first, then by name."""
    methods = {label: runs for same in settings.values() for label, runs in same.items()}
    ordered = sorted(methods, key=lambda name: order(name, methods))
    return styles(ordered, {label: methods[label][0].provenance["method"] for label in ordered})


def draw(runs: Sequence[Run], path: Path) -> Path:
    """Draw the windowed accuracy of each method in each setting; returns the path.

    Lines are means over runs, with a band of one standard deviation. Resets are ticks below zero, one row
    per method.
    """
    from matplotlib import rc_context  # deferred: slow import
    from matplotlib.lines import Line2D

    settings = groups(runs)
    looks = styles_of(settings)
    repeated = any(len(same) > 1 for methods in settings.values() for same in methods.values())
    resets = {"reset": Line2D([], [], color="0.3", marker="|", ls="")}
    columns = min(len(settings), 3) if len(settings) <= 9 else 4
    height = {1: 3.0, 2: 2.2, 3: 1.9}.get(columns, 1.5)
    options: dict[str, Any] = {"height": height, "width": TWO, "sharex": True, "sharey": True}
    with (
        rc_context({"text.parse_math": False}),
        panels(path, len(settings), columns, **options) as (figure, axes),
    ):
        rows = [
            _draw_panel(ax, title, methods, looks)
            for ax, (title, methods) in zip(axes, settings.items(), strict=True)
        ]
        axes[0].set_ylim(bottom=-_STEP * (max(rows) + 0.7))
        legend(
            figure, axes, "± 1 sd over runs" if repeated else "", **(resets if any(rows) else {})
        )
    return path


def _draw_panel(ax: Any, title: str, methods: Methods, looks: Mapping[str, Style]) -> int:
    """Draw the means and resets of each method; returns the number of rows of resets."""
    from matplotlib.ticker import EngFormatter  # deferred: slow import

    row = 0
    for label, runs in methods.items():
        look = looks[label]
        if curves := [curve(run) for run in runs if run.accuracy is not None]:
            band = mean_curve(curves)
            shade(ax, band.index, band["low"], band["high"], look.colour)
            plot(ax, band.index, band["mean"], label, look)
        if any(run.resets for run in runs):
            row += 1
            resets = np.concatenate([r.column("images")[r.column("reset") > 0] for r in runs])
            ticks = {"color": look.colour, "ms": 5, "mew": 1, "ls": ""}
            ax.plot(resets, np.full(len(resets), -_STEP * row), marker="|", **ticks)
    ax.set(title=title, xlabel="images seen", ylabel="accuracy")
    # Below zero are resets.
    ax.yaxis.set_major_formatter(lambda share, _: f"{abs(share):.0%}" if share > -_STEP / 2 else "")
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.axhline(0, color="0.6", lw=0.6)
    return row
