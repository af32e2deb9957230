"""Accuracy and agreement in distribution against those out of it, with their lines, on probit axes."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri

from ...callbacks.functional.agreement import Line, pairs, probit
from ..results.agreement import Estimates, Models, shares

TICKS = np.array([0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99])
COLUMNS = 3
ACCURACY, AGREEMENT = "#0072B2", "#D55E00"


def draw(found: list[tuple[Models, Estimates]], path: Path) -> Path:
    """One panel for each stream; returns the path."""
    rows = -(-len(found) // COLUMNS)
    columns = min(COLUMNS, len(found))
    figure, axes = plt.subplots(rows, columns, figsize=(3.6 * columns, 3.7 * rows), squeeze=False)
    for ax in axes.flat[len(found) :]:
        ax.set_visible(False)
    for ax, pair in zip(axes.flat, found, strict=False):
        panel(ax, *pair)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def panel(ax: Axes, models: Models, result: Estimates) -> None:
    """Pairs of models behind, models in front, both lines, and y = x."""
    (inside, truth), agreement = shares(models)
    first, second = pairs(len(inside))
    u, v = (probit(a[first, second], n) for a, n in zip(agreement, models.samples, strict=True))
    ax.scatter(u, v, s=6, color=AGREEMENT, alpha=0.35, lw=0, label="agreement of two models")
    x, y = probit(inside, models.samples[0]), None
    if truth is not None:
        y = probit(truth, models.samples[1])
        ax.scatter(x, y, s=16, color=ACCURACY, lw=0, label=f"{models.measured} of a model")
    every = np.concatenate([u, v, x] + ([] if y is None else [y]))
    low, high = every.min() - 0.15, every.max() + 0.15
    ends = np.array([low, high])
    for line, colour in ((result.agreement_line, AGREEMENT), (result.accuracy_line, ACCURACY)):
        if line is not None:
            ax.plot(ends, line.slope * ends + line.bias, color=colour, lw=1.3)
    ax.plot(ends, ends, color="0.6", ls=":", lw=1, label="y = x")
    ticks = TICKS[(ndtri(TICKS) > low) & (ndtri(TICKS) < high)]
    texts = [f"{100 * tick:g}" for tick in ticks]
    ax.set_xticks(ndtri(ticks), texts)
    ax.set_yticks(ndtri(ticks), texts)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
    ax.set_xlabel("in distribution, %")
    ax.set_ylabel("out of distribution, %")
    ax.set_title(models.stream.replace("/", "\n", 1), fontsize=9)
    text = "\n".join(
        f"{name}: {said(line)}"
        for name, line in (("acc", result.accuracy_line), ("agr", result.agreement_line))
    )
    ax.text(0.03, 0.97, text, transform=ax.transAxes, va="top", fontsize=7)
    ax.spines[["top", "right"]].set_visible(False)


def said(line: Line | None) -> str:
    """A line in a few characters."""
    return "no line" if line is None else f"{line.slope:.2f}x {line.bias:+.2f}, R² {line.r2:.2f}"
