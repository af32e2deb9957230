"""Pictures of one row of a table against another one, a point for each run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...results.pictures import pyplot, saved
from ...results.statistics import Difference, Values, rank_correlated
from ..table import Table


class Axes(NamedTuple):
    """Two rows of a table, and what the points are called."""

    x: str
    y: str
    points: str = ""


def row(table: Table, name: str) -> Values[str]:
    """All numbers of a row, each under its run and column."""
    return table.pooled(name, table.columns)


def correlation(table: Table, one: str, other: str, sign: int = 1) -> Difference | None:
    """The rank correlation of two rows over their common runs; its opposite with sign -1."""
    found = rank_correlated(row(table, one), row(table, other))
    if found is None or sign > 0:
        return found
    assert found.low is not None
    assert found.high is not None
    return Difference(-found.mean, -found.high, -found.low, found.n)


def in_words(table: Table, one: str, other: str) -> str:
    """The rank correlation of two rows as a sentence."""
    found = correlation(table, one, other)
    if found is None:
        return f"Rank correlation of {one} with {other}: too few runs."
    return (
        f"Rank correlation of {one} with {other}: {found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}], "
        f"{found.n} runs."
    )


def draw(table: Table, panels: Sequence[Sequence[Axes]], path: Path) -> Path:
    """A panel for each list of pairs of rows, whose points have colours of their own."""
    plt = pyplot()

    figure, places = plt.subplots(
        1, len(panels), figsize=(3.8 * len(panels), 3.4), squeeze=False, layout="constrained"
    )
    for ax, several in zip(places.flat, panels, strict=True):
        for axes in several:
            x, y = row(table, axes.x), row(table, axes.y)
            pairs = np.array([(x[key], y[key]) for key in x if key in y]).reshape(-1, 2)
            ax.plot(*pairs.T, "o", ms=4, alpha=0.6, label=axes.points)
        names = [
            {named.rpartition(": ")[2] for named in own}
            for own in zip(*((a.x, a.y) for a in several), strict=True)
        ]
        ax.set_xlabel(" / ".join(sorted(names[0])), fontsize=8)
        ax.set_ylabel(" / ".join(sorted(names[1])), fontsize=8)
        ax.axhline(0, color="0.8", lw=0.8, zorder=0)
        ax.grid(color="0.93")
        ax.spines[["top", "right"]].set_visible(False)
        if any(axes.points for axes in several):
            ax.legend(frameon=False, fontsize=8)
    return saved(figure, path)
