"""Pictures of one curve of a table against another one, a point for each run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..results.pictures import pyplot, saved
from .primitives import rank_correlation
from .table import Table


class Axes(NamedTuple):
    """Two curves of a panel; the panel names the points."""

    x: str
    y: str
    panel: str = ""


def correlated(table: Table, one: str, other: str, panel: str = "") -> str:
    """The rank correlation of two curves as a sentence."""
    (part,) = rank_correlation(table, one, other, panel)
    names = f"{one} with {other}" + (f" in {panel}" if panel else "")
    if part.found is None:
        return f"Rank correlation of {names}: too few runs."
    mean, low, high, n = part.found
    return f"Rank correlation of {names}: {mean:+.2f} [{low:+.2f}, {high:+.2f}], {n} runs."


def draw(table: Table, pictures: Sequence[Sequence[Axes]], path: Path) -> Path:
    """A picture for each list of pairs of curves, whose points have colours of their own."""
    plt = pyplot()

    figure, places = plt.subplots(
        1, len(pictures), figsize=(3.8 * len(pictures), 3.4), squeeze=False, layout="constrained"
    )
    for ax, several in zip(places.flat, pictures, strict=True):
        for axes in several:
            x, y = (table.by_run(axes.panel, curve) for curve in (axes.x, axes.y))
            pairs = np.array([(x[key], y[key]) for key in x if key in y]).reshape(-1, 2)
            ax.plot(*pairs.T, "o", ms=4, alpha=0.6, label=axes.panel)
        ax.set_xlabel(several[0].x, fontsize=8)
        ax.set_ylabel(several[0].y, fontsize=8)
        ax.axhline(0, color="0.8", lw=0.8, zorder=0)
        ax.grid(color="0.93")
        ax.spines[["top", "right"]].set_visible(False)
        if any(axes.panel for axes in several):
            ax.legend(frameon=False, fontsize=8)
    return saved(figure, path)
