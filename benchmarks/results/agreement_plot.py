"""Plot accuracy and agreement out of distribution against those in distribution, on probit axes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ...callbacks.functional.aline import line, pairs, probit
from ...drawing import panels, saved
from .model_agreement import Estimates

Array = np.ndarray
TICKS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
COLUMNS = 3
ACCURACY, AGREEMENT = "#0072B2", "#D55E00"
PAIRS = "agreement of two models"


class Points(NamedTuple):
    """Accuracies of models and agreements of pairs of models in percent, for one ensemble and shift."""

    accuracy: list[list[float]]  # of each model, in and out of distribution; empty without labels
    agreement: list[list[float]]  # of each pair of models
    samples: list[int]  # numbers in and out of distribution
    measured: str = "accuracy"


def points(result: Estimates) -> Points:
    """Collect accuracies and agreements in and out of distribution."""
    both = pairs(len(result.inside))
    return Points(
        [] if result.truth is None else in_percent(result.inside, result.truth),
        in_percent(*(shares[both] for shares in result.agreement)),
        list(result.models.samples),
        result.models.measured,
    )


def in_percent(inside: Array, outside: Array) -> list[list[float]]:
    """Pairs of percentages, rounded to two decimals."""
    return np.round(100 * np.stack([inside, outside], 1), 2).tolist()


def draw(ensembles: Mapping[str, Points], path: Path) -> Path:
    """Draw one panel per ensemble; returns the path."""
    rows, columns = -(-len(ensembles) // COLUMNS), min(COLUMNS, len(ensembles))
    figure, axes = panels(len(ensembles), columns, size=(3.6 * columns, 3.7 * rows))
    for ax, (title, own) in zip(axes, ensembles.items(), strict=True):
        draw_panel(ax, title, own)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return saved(figure, path)


def draw_panel(ax: Any, title: str, own: Points) -> None:
    """Draw pairs of models, models on top, both lines, and y = x."""
    known = {PAIRS: own.agreement, f"{own.measured} of a model": own.accuracy}
    both = {label: probits(values, own.samples) for label, values in known.items() if values}
    ends = np.concatenate([xy.ravel() for xy in both.values()])
    ends = np.linspace(ends.min() - 0.15, ends.max() + 0.15)
    texts = []
    for label, (x, y) in both.items():
        colour, size = (AGREEMENT, 6) if label == PAIRS else (ACCURACY, 16)
        ax.scatter(ndtr(x), ndtr(y), s=size, color=colour, lw=0, label=label)
        if found := line(x, y):
            ax.plot(ndtr(ends), ndtr(found.slope * ends + found.bias), color=colour, lw=1.3)
        texts.append(f"{label[:3]}: {found or '-'}")
    limits = ndtr(ends[[0, -1]])
    ax.plot(limits, limits, color="0.6", ls=":", lw=1, label="y = x")
    ticks = [tick for tick in TICKS if limits[0] < tick < limits[1]]
    ax.set_xscale("function", functions=(ndtri, ndtr))
    ax.set_yscale("function", functions=(ndtri, ndtr))
    ax.set(xlim=limits, ylim=limits, xlabel="in distribution, %", ylabel="out of distribution, %")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{100 * tick:g}" for tick in ticks])
    ax.set_title(title, fontsize=9)
    ax.text(0.03, 0.97, "\n".join(texts), transform=ax.transAxes, va="top", fontsize=7)


def probits(values: list[list[float]], samples: list[int]) -> Array:
    """Probits of percentages in and out of distribution, [2,n]."""
    both = zip(np.array(values).T / 100, samples, strict=True)
    return np.stack([probit(shares, n) for shares, n in both])
