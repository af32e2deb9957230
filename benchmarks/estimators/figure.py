"""True accuracy, estimates and resets over the stream as a picture."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from ..results.collapse import below, intervals, trailing_mean
from ..results.palette import COLOURS
from ..results.pictures import saved
from ..results.runs import Run

WINDOW = 10  # batches in each trailing mean


def draw(runs: list[Run], path: Path) -> Path:
    """One panel per adapting run of the first stream and seed that was watched; returns the path.

    Lines are trailing means of 10 batches, which look back only; AETTA's figure 4 has a Gaussian filter.
    """
    watched = [run for run in runs if run.adapts and run.estimators]
    first = [run for run in watched if run.stream_id == watched[0].stream_id]
    names = list(dict.fromkeys(name for run in first for name in run.estimators))
    size = (8, 1.2 + 2.6 * max(1, len(first)))
    figure, axes = plt.subplots(max(1, len(first)), 1, figsize=size, squeeze=False, sharex=True)
    for run, ax in zip(first, axes[:, 0], strict=False):
        panel(ax, run, names)
    axes[-1, 0].set_xlabel("images seen")
    axes[-1, 0].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    pairs = zip(*reversed(all_handles(axes[:, 0])), strict=True)
    handles = dict(pairs)
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False)
    figure.set_layout_engine("constrained")
    return saved(figure, path, dpi=150)


def all_handles(axes: Any) -> tuple[list[Any], list[str]]:
    """Legend entries of all panels."""
    pairs = [pair for ax in axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    return [handle for handle, _ in pairs], [label for _, label in pairs]


def panel(ax: Axes, run: Run, names: list[str]) -> None:
    """One run: accuracy in black, estimates in colours, resets as ticks, collapse shaded."""
    images, accuracy = run.column("images"), run.column("accuracy")
    if run.accuracy is not None:
        ax.plot(
            images, trailing_mean(accuracy, WINDOW), color="black", lw=2.2, label="true accuracy"
        )
    for name, colour in zip(names, COLOURS * 3, strict=False):
        estimate = trailing_mean(run.column(name), WINDOW)
        ax.plot(images, estimate, color=colour, lw=1.2, label=name)
    reference = run.of_source("accuracy")
    if run.accuracy is not None and reference is not None:
        grey: dict[str, Any] = {"color": "0.5", "ls": "--", "lw": 1.2}
        ax.plot(images, trailing_mean(reference, WINDOW), label="source model", **grey)
        for first, last in intervals(below(accuracy, reference), 20):
            shade: dict[str, Any] = {"color": "#D55E00", "alpha": 0.1, "lw": 0}
            ax.axvspan(images[first], images[last], label="below the source model", **shade)
    resets = images[run.column("reset") > 0]
    if len(resets):
        ax.plot(resets, np.zeros(len(resets)), "|k", ms=9, mew=1.5, clip_on=False, label="reset")
    ax.set_title(f"{run.label} on {run.stream}, seed {run.seed}", loc="left", fontsize=11)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_ylim(0, 1)
    ax.grid(axis="y", color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
