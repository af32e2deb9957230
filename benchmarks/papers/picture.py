"""A table as a picture: curves along its axis in panels, or dots with their spread."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ..results import lines
from ..results.figure import styles_of
from ..results.pictures import saved
from ..results.statistics import Values
from .table import Table


def draw(table: Table, path: Path) -> Path:
    """Lines through points if it has any, curves along its axis, else a dot for each run.

    There is a panel for each "panel: ", or each column.
    """
    if table.points:
        return lines.draw(table.points, path)
    split = [name.partition(": ") for name in table.rows]
    names = list(dict.fromkeys(last if dash else first for first, dash, last in split))
    styles = styles_of([(name, name) for name in names])
    panels = list(dict.fromkeys(first if dash else "" for first, dash, _ in split))
    panels = panels if table.axis else table.columns
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = -(-len(panels) // columns)
    height = 2.8 if table.axis else max(2.8, 0.16 * len(table.rows))
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.4 * columns + 1, height * rows), squeeze=False
    )
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for panel, ax in zip(panels, axes.flat, strict=False):
        ax.set_title(panel, loc="left", fontsize=9)
        if table.axis:
            curves(ax, table, f"{panel}: " if panel else "", styles)
        else:
            dots(ax, table, panel, styles)
        ax.grid(axis="both", color="0.93")
        ax.spines[["top", "right"]].set_visible(False)
    if table.axis:
        handles = [plt.Line2D([], [], lw=1.6, **style) for style in styles.values()]
        legend: dict[str, Any] = {"loc": "outside lower center", "ncols": 5, "fontsize": 8}
        figure.legend(handles, list(styles), frameon=False, **legend)
        for ax in axes.flat[
            max(0, len(panels) - columns) : len(panels)
        ]:  # the lowest of each column
            ax.set_xlabel(table.axis, fontsize=8)
    figure.suptitle(table.unit, fontsize=9)
    figure.set_layout_engine("constrained")
    return saved(figure, path)


def curves(ax: Axes, table: Table, prefix: str, styles: dict[str, dict[str, Any]]) -> None:
    """Means over runs along the axis, in a band of one standard deviation; single runs are thin."""
    rows = {row: cells for row, cells in table.rows.items() if row.startswith(prefix)}
    faint = min(1, 3 / len(rows))  # where many bands lie over each other
    for row, cells in rows.items():
        known = [column for column in table.columns if cells.get(column)]
        x = np.array([float(column) for column in known])
        values = [np.array(list(cells[column].values())) for column in known]
        mean = np.array([v.mean() for v in values])
        spread = np.array([v.std(ddof=1) if len(v) > 1 else 0 for v in values])
        style = styles[row.removeprefix(prefix)]
        for run in several_runs(cells, known):
            single = [cells[column].get(run, np.nan) for column in known]
            ax.plot(x, single, lw=0.4, alpha=0.25 * faint, **style)
        ax.plot(x, mean, lw=1.6, marker="o" if len(x) < 12 else "", ms=3, **style)
        colour = style["color"]
        ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15 * faint, lw=0)
        if len(x) < 12 and x.max() > 20 * x.min() > 0:
            ax.set_xscale("log")
            ax.set_xticks(x, [f"{value:g}" for value in x], fontsize=8)
            ax.minorticks_off()
        elif "logarithmic" in table.axis:
            ax.set_xscale("symlog", linthresh=1)
    if table.unit == "accuracy, %":  # a band may go beyond what there can be
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, -1), min(high, 101))


def several_runs(cells: dict[str, Values[str]], columns: list[str]) -> list[str]:
    """The runs that numbers of a row are of; none where there is one only."""
    found = list(dict.fromkeys(run for column in columns for run in cells[column]))
    return found if len(found) > 1 else []


def dots(ax: Axes, table: Table, column: str, styles: dict[str, dict[str, Any]]) -> None:
    """A dot for each run of each row, a stroke for the mean."""
    for line, (row, cells) in enumerate(table.rows.items()):
        values = list(cells.get(column, {}).values())
        colour = styles[row.partition(": ")[2] or row]["color"]
        ax.plot(values, [line] * len(values), "o", ms=3, color=colour, alpha=0.5)
        if values:
            ax.plot(np.mean(values), line, "|", ms=11, mew=2.2, color=colour)
    ax.set_yticks(range(len(table.rows)), list(table.rows), fontsize=7)
    ax.set_ylim(len(table.rows) - 0.4, -0.6)
