"""Accuracy over the stream as a picture."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from .runs import Run, grouped

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
POINTS = 32  # windows along the stream


def draw(runs: list[Run], path: Path) -> Path:
    """Windowed accuracy over images seen, one panel per stream; returns the path of the picture."""
    panels = grouped(runs, lambda run: (run.stream, run.seed, run.stream_id))
    names = list(dict.fromkeys(run.label for run in runs if run.adapts))
    styles = {
        name: {"color": COLOURS[n % len(COLOURS)], "ls": ("-", "--", ":")[n // len(COLOURS) % 3]}
        for n, name in enumerate(names)
    }
    height = 1.2 + 3.3 * len(panels)
    figure, axes = plt.subplots(len(panels), 1, figsize=(8, height), squeeze=False, sharex=True)
    for ((stream, seed, _), panel), ax in zip(panels.items(), axes[:, 0], strict=True):
        for run in panel:
            curve(ax, run, styles.get(run.label, {}))
        ax.set_title(f"{stream}, seed {seed}", loc="left", fontsize=11)
        ax.set_ylabel("accuracy")
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set_ylim(bottom=0)
        ax.grid(axis="y", color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("images seen")
    axes[-1, 0].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    handles = dict(zip(*reversed(all_handles(axes[:, 0])), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside right upper", frameon=False, fontsize=10
    )
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def all_handles(axes: Any) -> tuple[list[Any], list[str]]:
    """Legend entries of all panels."""
    pairs = [pair for ax in axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    return [handle for handle, _ in pairs], [label for _, label in pairs]


def curve(ax: Axes, run: Run, style: dict[str, Any]) -> None:
    """One run as a line of windowed means, with a tick below each reset."""
    images, accuracy = run.column("images"), run.column("accuracy")
    windows = np.array_split(np.arange(len(images)), min(POINTS, len(images)))
    x = [images[window].mean() for window in windows]
    y = [accuracy[window].mean() for window in windows]
    if not run.adapts:
        ax.plot(x, y, color="0.35", ls=(0, (4, 2)), lw=1.6, label=f"{run.label} (frozen)")
        return
    (line,) = ax.plot(x, y, lw=1.8, label=run.label, **style)
    resets = images[run.column("reset") > 0]
    if len(resets):
        label = f"reset of {run.label}"
        marks: dict[str, Any] = {"ms": 9, "mew": 1.5, "clip_on": False, "label": label}
        ax.plot(resets, np.zeros(len(resets)), "|", color=line.get_color(), **marks)
