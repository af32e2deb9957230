"""Draw a table as curves in panels, or as dots with their spread; or one curve against another."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...drawing import describe, panels, pyplot, saved
from ..results.palette import COLOURS, DASHES, METHODS, method_styles
from .table import Table, X, written

PROMINENT = ("Source", "EATA", "RDumb")  # coloured if there are too many curves to distinguish
MANY = 7
FAINT = "0.72"
WIDE = 13  # characters of the legend per inch
Style = dict[str, Any]
Picture = Callable[[Table, list[Any], Path], Path]


def draw(table: Table, path: Path) -> Path:
    """Draw lines through points if there are any, curves along an axis, or otherwise a dot per run."""
    if table.points:
        from ..results import agreement_plot  # deferred: imports torch

        points = {name: agreement_plot.Points(*own) for name, own in table.points.items()}
        return agreement_plot.draw(points, path)
    names = table.panels if table.along else [written(x) for x in table.xs]
    columns = 2 if len(names) == 4 else min(3, len(names))
    height = 2.8 if table.along else max(2.8, 0.16 * len(table.cells))
    size = (max(6.0, 3.4 * columns + 1), height * -(-len(names) // columns))
    figure, axes = panels(len(names), columns, size=size)
    styles = styles_for(table)
    for panel, ax in zip(names, axes, strict=True):
        describe(ax, panel)
        if table.along:
            draw_curves(ax, table, panel, styles)
        else:
            draw_dots(ax, table, table.xs[names.index(panel)])
    if table.along:
        entries = legend_of(styles)
        handles = [pyplot().Line2D([], [], lw=1.6, **style) for style in entries.values()]
        # 6 characters: the line and the gaps.
        fitting = int(size[0] * WIDE / (max(map(len, entries)) + 6))
        where: Style = {"loc": "outside lower center", "ncols": max(1, min(5, fitting))}
        figure.legend(handles, list(entries), frameon=False, fontsize=8, **where)
        # The bottom panel of each column.
        for ax in axes[-columns:]:
            ax.set_xlabel(table.axis, fontsize=8)
    figure.suptitle(table.unit, fontsize=9)
    return saved(figure, path)


def styles_for(table: Table) -> dict[str, Style]:
    """The colour and dashes of each curve; with many methods, all except the prominent ones are grey."""
    names = table.curves()
    shown = [name for name in PROMINENT if name in names] if len(names) > MANY else []
    shown = shown or names
    if all(name in METHODS for name in names):
        styles = method_styles((name, name) for name in shown)
        pairs = {name: (style.colour, style.dashes) for name, style in styles.items()}
    else:
        count = len(COLOURS)
        dashes = [DASHES[n // count % len(DASHES)] for n in range(len(shown))]
        pairs = {name: (COLOURS[n % count], dashes[n]) for n, name in enumerate(shown)}
    lines = {name: {"color": c, "ls": (0, d) if d else "-"} for name, (c, d) in pairs.items()}
    return {name: lines.get(name, {"color": FAINT, "ls": "-"}) for name in names}


def legend_of(styles: dict[str, Style]) -> dict[str, Style]:
    """The entries of the legend, with a single one for all grey curves."""
    faint = [name for name, style in styles.items() if style["color"] == FAINT]
    shown = {name: style for name, style in styles.items() if name not in faint}
    return shown | ({", ".join(faint): styles[faint[0]]} if faint else {})


def draw_curves(ax: Any, table: Table, panel: str, styles: dict[str, Style]) -> None:
    """Draw means over runs along the axis with a band of one standard deviation, and thin single runs."""
    own = {c: cells for (p, c), cells in table.cells.items() if p == panel}
    # For many overlapping bands.
    faint = min(1, 3 / len(own))
    alone = all(styles[curve]["color"] != FAINT for curve in own)
    for curve in sorted(own, key=lambda curve: styles[curve]["color"] != FAINT):
        cells, style, known = own[curve], styles[curve], table.of_curve(panel, curve)
        x = np.array([float(at) for at in known])
        values = [np.array(list(cells[at].values())) for at in known]
        mean = np.array([v.mean() for v in values])
        spread = np.array([v.std(ddof=1) if len(v) > 1 else 0 for v in values])
        runs = dict.fromkeys(run for at in known for run in cells[at])
        for run in runs if alone and len(runs) > 1 else ():
            single = [cells[at].get(run, np.nan) for at in known]
            ax.plot(x, single, lw=0.4, alpha=0.25 * faint, **style)
        ax.plot(x, mean, lw=1.6, marker="o" if len(x) < 12 else "", ms=3, **style)
        if style["color"] != FAINT:
            band = {"color": style["color"], "alpha": 0.15 * faint, "lw": 0}
            ax.fill_between(x, mean - spread, mean + spread, **band)
        if len(x) < 12 and x.max() > 20 * x.min() > 0:
            ax.set_xscale("log")
            ax.set_xticks(x, [f"{value:g}" for value in x], fontsize=8)
            ax.minorticks_off()
        elif table.log:
            ax.set_xscale("symlog", linthresh=1)
    # A band may exceed the possible values.
    if table.bounds:
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, table.bounds[0] - 1), min(high, table.bounds[1] + 1))


def draw_dots(ax: Any, table: Table, x: X) -> None:
    """Draw a dot per run in each row, and a line for the mean; the colour has no meaning."""
    names = []
    for line, ((panel, curve), cells) in enumerate(table.cells.items()):
        values = list(cells.get(x, {}).values())
        names.append(f"{panel}: {curve}" if panel else curve)
        ax.plot(values, [line] * len(values), "o", ms=3, color="0.55", alpha=0.6)
        if values:
            ax.plot(np.mean(values), line, "|", ms=11, mew=2.2, color="#0072B2")
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_ylim(len(names) - 0.4, -0.6)


def of_panels(*shown: str, unit: str) -> Picture:
    """A picture of some panels of a table, as the others have a different unit."""

    def picture(table: Table, cells: list[Any], path: Path) -> Path:
        frame = table.frame[table.frame["panel"].isin(shown)]
        return draw(replace(table, frame=frame, unit=unit), path)

    return picture


def scatter(*pairs: tuple[str, str]) -> Picture:
    """A picture with one plot for each pair of curves, as x and y, and one colour for each panel."""

    def picture(table: Table, cells: list[Any], path: Path) -> Path:
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
