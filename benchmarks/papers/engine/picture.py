"""Draw a table as curves in panels, or as dots with their spread; or one curve against another."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from ....drawing import describe, panels, saved
from ...results.figure import COLOURS, DASHES, METHODS, method_styles
from .experiment import Picture
from .table import Table, X, header

Style = dict[str, Any]
FEW = 6  # maximum number of curves with bands, which hide each other


def draw(table: Table, path: Path) -> Path:
    """Draw lines through points if there are any, curves along an axis, or otherwise a dot per run."""
    if table.points:
        from ...results import model_agreement  # deferred: imports torch

        points = {name: model_agreement.Points(*shares) for name, shares in table.points.items()}
        return model_agreement.draw(points, path)
    curves = table.along and len(table.xs) > 1  # a single x makes no curve
    titles = table.panels if curves else [header(x) for x in table.xs]
    columns = 2 if len(titles) == 4 else min(3, len(titles))
    height = 2.8 if curves else max(2.8, 0.16 * len(table.cells))
    size = (max(6.0, 3.4 * columns + 1), height * -(-len(titles) // columns))
    figure, axes = panels(len(titles), columns, size=size, sharex=True, sharey=not curves)
    styles = styles_for(table.curves())
    for title, x, ax in zip(titles, table.panels if curves else table.xs, axes, strict=True):
        describe(ax, f"{table.axis}: {title}" if table.along and not curves else title)
        if curves:
            draw_curves(ax, table, title, styles)
        else:
            _draw_dots(ax, table, x)
    for ax in axes[-columns:]:  # also above a panel that is left out
        ax.set_xlabel(table.axis if curves else table.unit, fontsize=8)
        ax.tick_params(labelbottom=True)
    if curves:
        figure.supylabel(table.unit, fontsize=8)
        handles = {line.get_label(): line for ax in axes for line in ax.get_lines()}
        where: Style = {"loc": "outside lower center", "ncols": 2 + columns}
        figure.legend(handles.values(), handles, frameon=False, fontsize=8, **where)
    return saved(figure, path)


def styles_for(names: Sequence[str]) -> dict[str, Style]:
    """The colour and dashes of each curve; those of the methods if all curves are methods."""
    methods = [(name, name.partition("-")[0]) for name in names]
    styles: list[tuple[str, tuple[int, ...]]] = [*method_styles(methods).values()]
    if not all(method in METHODS for _, method in methods):
        styles = [*islice(cycle((c, d) for d in DASHES for c in COLOURS), len(names))]
    return {
        name: {"color": colour, "ls": (0, dashes) if dashes else "-"}
        for name, (colour, dashes) in zip(names, styles, strict=True)
    }


def draw_curves(ax: Any, table: Table, panel: str, styles: dict[str, Style]) -> None:
    """Draw means over runs along the axis; if curves are few, with bands of one standard deviation."""
    for curve in table.curves(panel):
        xs = table.xs_of(panel, curve)
        values = [np.array([*table.values(panel, curve, x).values()]) for x in xs]
        x, mean = np.array(xs, float), np.array([v.mean() for v in values])
        spread = np.array([v.std(ddof=1) if len(v) > 1 else 0 for v in values])
        marker = "o" if len(xs) < 12 else ""
        ax.plot(x, mean, lw=1.6, marker=marker, ms=3, label=curve, **styles[curve])
        if len(styles) <= FEW:
            style: Style = {"color": styles[curve]["color"], "alpha": 0.12, "lw": 0}
            ax.fill_between(x, mean - spread, mean + spread, **style)
        if table.log:
            ax.set_xscale("symlog", linthresh=min(1, x[x > 0].min()))
        elif len(table.xs) < 12 and max(table.xs) > 20 * min(table.xs) > 0:  # type: ignore[type-var,operator]
            ax.set_xscale("log")
            ax.set_xticks(table.xs, [header(value) for value in table.xs], fontsize=8)
            ax.minorticks_off()


def _draw_dots(ax: Any, table: Table, x: X) -> None:
    """Draw a dot per run in each row, and a line for the mean; the colour has no meaning."""
    names = [f"{panel}: {curve}" if panel else curve for panel, curve in table.cells]
    for line, key in enumerate(table.cells):
        values = [*table.values(*key, x).values()]
        ax.plot(values, [line] * len(values), "o", ms=3, color="0.55", alpha=0.6)
        if values:
            ax.plot(np.mean(values), line, "|", ms=11, mew=2.2, color=COLOURS[0])
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_ylim(len(names) - 0.4, -0.6)


def of_panels(*names: str, unit: str) -> Picture:
    """A picture of some panels of a table, as the others have a different unit."""

    def picture(table: Table, cells: Sequence[Any], path: Path) -> Path:
        frame = table.frame[table.frame["panel"].isin(names)]
        return draw(replace(table, frame=frame, unit=unit), path)

    return picture


def scatter(*pairs: tuple[str, str]) -> Picture:
    """A picture with one plot for each pair of curves, as x and y, and one colour for each panel."""

    def picture(table: Table, cells: Sequence[Any], path: Path) -> Path:
        figure, axes = panels(len(pairs), size=(3.8 * len(pairs), 3.4))
        for ax, names in zip(axes, pairs, strict=True):
            for panel in table.panels:
                x, y = (table.by_run(panel, name) for name in names)
                points = np.array([(x[key], y[key]) for key in x if key in y]).reshape(-1, 2)
                ax.plot(*points.T, "o", ms=4, alpha=0.6, label=panel)
            ax.axhline(0, color="0.8", lw=0.8, zorder=0)
            describe(ax, "", *names)
            if any(table.panels):
                ax.legend(frameon=False, fontsize=8)
        return saved(figure, path)

    return picture
