"""Draw a table as curves in panels, or as dots with their spread; or one curve against another."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....drawing import COLOURS, TWO, Style, legend, method_of, panels, plot, shade, styles
from .experiment import Picture
from .table import Table, header

FEW = 6  # maximum number of curves with bands, which hide each other
ROW = 0.145  # height of a row of dots, inches


def draw(table: Table, path: Path) -> Path:
    """Draw lines through points if there are any, curves along an axis, or otherwise a dot per run."""
    if table.points:
        from ...results import model_agreement  # deferred: imports torch

        points = {name: model_agreement.Points(*shares) for name, shares in table.points.items()}
        return model_agreement.draw(points, path)
    # A panel that pools a single one repeats it; a single x makes no curve.
    merged = [name for name, parts in table.pooled.items() if len({*parts} & {*table.panels}) < 2]
    names = [panel for panel in table.panels if panel not in merged]
    return (_draw_curves if table.along and len(table.xs) > 1 else _draw_dots)(table, names, path)


def balanced(count: int, most: int) -> int:
    """The number of columns of a grid, at most `most`, whose last row is as full as possible."""
    return -(-count // -(-count // most))


def part_of(text: str, names: Sequence[str], name: str) -> str:
    """The part of "A, %; B, nats" that is about a panel: that with its name, or the one at its place."""
    parts = text.split("; ")
    named = [part for part in parts if name and re.search(rf"\b{re.escape(name)}\b", part)]
    if named or len(parts) != len(names):
        return named[0] if len(named) == 1 else text
    return parts[names.index(name)]


def _draw_curves(table: Table, names: Sequence[str], path: Path) -> Path:
    columns, looks = balanced(len(names), 3), styles(table.curves())
    shared = part_of(table.axis, names, names[0]) == part_of(table.axis, names, names[-1])
    with panels(path, len(names), columns, height=1.8, sharex=shared) as (figure, axes):
        for name, ax in zip(names, axes, strict=True):
            ax.set(title=name, xlabel=part_of(table.axis, names, name))
            ax.set_ylabel(part_of(table.unit, names, name))
            draw_curves(ax, table, name, looks)
        if len(looks) > 1 or any(names):
            banded = len(looks) <= FEW and table.frame["run"].nunique() > 1
            legend(figure, axes, "± 1 sd over runs, paired if narrower" if banded else "")
        else:
            axes[0].set_title(*looks)
    return path


def draw_curves(ax: Any, table: Table, panel: str, looks: Mapping[str, Style]) -> None:
    """Draw means over runs along the axis; if curves are few, with bands of one `spread`."""
    curves = table.curves(panel)
    cells = {(x, c): table.values(panel, c, x) for c in curves for x in table.xs_of(panel, c)}
    numbers = pd.DataFrame(cells)  # a row for each run
    deviation = spread(numbers)
    for curve in curves:
        y = numbers.mean().xs(curve, level=1)
        plot(ax, y.index, y, curve, looks[curve])
        if len(looks) <= FEW and len(numbers) > 1:
            sd = deviation.xs(curve, level=1)
            shade(ax, y.index, y - sd, y + sd, looks[curve].colour)
    xs = [x for x in table.xs if isinstance(x, int | float)]
    if table.log:
        ax.set_xscale("symlog" if 0 in xs else "log")
    elif len(xs) < 12 and max(xs) > 20 * min(xs) > 0:
        ax.set_xscale("log")
        ax.set_xticks(xs, [header(b) if b > 1.6 * a else "" for a, b in pairwise([0, *xs])])
        ax.minorticks_off()


def spread(numbers: pd.DataFrame) -> pd.Series:
    """The standard deviation over runs (rows) of each (x, curve), without what curves share if that helps.

    The curves of a run share its images, so each run's mean over the curves at an x is removed, or over all
    x of a single curve (Cousineau 2005, with the correction of Morey 2008).
    """
    flat, plain = numbers.T, numbers.std()
    if numbers.isna().any(axis=None):
        return plain
    if flat.index.get_level_values(1).nunique() > 1:
        by_x = flat.groupby(level=0)
        means, count = by_x.transform("mean"), by_x[flat.columns[0]].transform("size")
    else:
        means, count = flat.mean(), pd.Series(len(flat), index=flat.index)
    paired = (flat - means).std(axis=1) * np.sqrt(count / (count - 1).clip(1))
    both = pd.DataFrame({"paired": paired, "plain": plain}).groupby(level=1).mean()
    return paired if count.min() > 1 and (both["paired"] <= both["plain"]).all() else plain


def _draw_dots(table: Table, names: Sequence[str], path: Path) -> Path:
    """Draw a dot per run in each row, and a line for the mean; rows of a panel below its name."""
    single = len(table.xs) == 1 and len(names) > 1  # then a panel is a column
    titles = [*names] if single else [header(x) for x in table.xs]
    rows = [] if not single else [("", curve) for curve in table.curves()]
    for name in () if single else names:
        head = [(name, "")] if name and len(names) > 1 else []
        rows += [*head, *((name, curve) for curve in table.curves(name))]
    looks = styles(table.curves())
    units = [part_of(table.unit, titles, title) for title in titles]
    columns = balanced(len(titles), 4)
    options: dict[str, Any] = {"sharex": len({*units}) == 1, "sharey": True}
    width, height = (TWO if len(titles) > 1 else TWO / 1.5), 0.62 + ROW * len(rows)
    with panels(path, len(titles), columns, height=height, width=width, **options) as (
        figure,
        axes,
    ):
        for n, (title, unit, ax) in enumerate(zip(titles, units, axes, strict=True)):
            ax.set(title=title, xlabel=unit)
            for line, (name, curve) in enumerate(rows):
                key = (title, curve, table.xs[0]) if single else (name, curve, table.xs[n])
                colour = looks[curve].colour if curve and method_of(curve) else COLOURS[0]
                values = [*table.values(*key).values()]
                ax.plot(values, [line] * len(values), "o", ms=2.5, mew=0, color=colour, alpha=0.45)
                if values:
                    ax.plot(np.mean(values), line, "|", ms=8, mew=1.8, color=colour)
            ax.set_yticks(range(len(rows)), [curve or name for name, curve in rows])
            ax.set_ylim(len(rows) - 0.4, -0.6)
        for ax in axes[::columns]:
            for text, (_, curve) in zip(ax.get_yticklabels(), rows, strict=True):
                text.set(fontweight="normal" if curve else "bold")
        if table.along:
            where = f"{table.axis}: {header(table.xs[0])}" if len(table.xs) == 1 else table.axis
            figure.suptitle(where, fontsize="medium", x=0.01, ha="left")
    return path


def of_panels(*names: str, unit: str) -> Picture:
    """A picture of some panels of a table, as the others have a different unit."""

    def picture(table: Table, cells: Sequence[Any], path: Path) -> Path:
        frame = table.frame[table.frame["panel"].isin(names)]
        if len(names) == 1:  # which the unit says
            frame = frame.assign(panel="")
        return draw(replace(table, frame=frame, unit=unit), path)

    return picture


def scatter(*pairs: tuple[str, str], label: Callable[[str], str] = str) -> Picture:
    """A picture with one plot for each pair of curves, as x and y, and one colour for each panel."""

    def picture(table: Table, cells: Sequence[Any], path: Path) -> Path:
        looks = styles(table.panels)
        with panels(path, len(pairs), height=2.2, width=TWO) as (figure, axes):
            for ax, names in zip(axes, pairs, strict=True):
                for panel in table.panels:
                    x, y = (table.by_run(panel, name) for name in names)
                    points = np.array([(x[key], y[key]) for key in x if key in y]).reshape(-1, 2)
                    style = {"color": looks[panel].colour, "alpha": 0.6, "mew": 0}
                    ax.plot(*points.T, "o", label=panel, **style)
                ax.axhline(0, color="0.8", lw=0.8, zorder=0)
                ax.set(xlabel=label(names[0]), ylabel=label(names[1]))
            if any(table.panels):
                legend(figure, axes)
        return path

    return picture
