"""Draw a table as curves in panels, as dots with their spread, or as one curve against another."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...drawing import describe, panels, pyplot, saved
from ..results.palette import COLOURS, DASHES, METHODS, method_styles
from ..results.run_statistics import Values
from .experiment import Experiment, named
from .primitives import rank_correlation
from .table import Table, X, written

PROMINENT = ("Source", "EATA", "RDumb")  # coloured if there are too many curves to distinguish
MANY = 7
FAINT = "0.72"
WIDE = 13  # characters of the legend per inch


def draw_results(own: Experiment, results: dict[str, Any], cells: list[Any], path: Path) -> Path:
    """Draw the figure of an experiment's results; returns the path."""
    table = Table.read(results["table"])
    if own.picture:
        return named(own.picture, own.paper)(table, cells, path)
    return draw(table, path)


def draw(table: Table, path: Path) -> Path:
    """Draw lines through points if there are any, curves along an axis, or otherwise a dot per run."""
    if table.points:
        lines = import_module("..results.agreement_plot", __package__)
        return lines.draw({name: lines.Points(*own) for name, own in table.points.items()}, path)
    names = table.panels if table.along else [written(x) for x in table.xs]
    columns = 2 if len(names) == 4 else min(3, len(names))
    styles = styles_for(table)
    height = 2.8 if table.along else max(2.8, 0.16 * len(table.cells))
    size = (max(6.0, 3.4 * columns + 1), height * -(-len(names) // columns))
    figure, axes = panels(len(names), columns, size=size)
    for panel, ax in zip(names, axes, strict=True):
        describe(ax, panel)
        if table.along:
            curves(ax, table, panel, styles)
        else:
            dots(ax, table, table.xs[names.index(panel)])
    if table.along:
        entries = legend_of(styles)
        handles = [pyplot().Line2D([], [], lw=1.6, **style) for style in entries.values()]
        fitting = int(size[0] * WIDE / (max(map(len, entries)) + 6))  # 6: the line and the gaps
        figure.legend(
            handles,
            list(entries),
            frameon=False,
            loc="outside lower center",
            ncols=max(1, min(5, fitting)),
            fontsize=8,
        )
        for ax in axes[-columns:]:  # the bottom panel of each column
            ax.set_xlabel(table.axis, fontsize=8)
    figure.suptitle(table.unit, fontsize=9)
    return saved(figure, path)


def styles_for(table: Table) -> dict[str, dict[str, Any]]:
    """The colour and dashes of each curve; with many methods, all except the prominent ones are grey."""
    names = table.curves()
    methods = all(name in METHODS for name in names)
    shown = [name for name in PROMINENT if name in names] if len(names) > MANY else []
    shown = shown or names
    if methods:
        styles = method_styles((name, name) for name in shown)
        found = {name: (style.colour, style.dashes) for name, style in styles.items()}
    else:
        count = len(COLOURS)
        found = {
            name: (COLOURS[n % count], DASHES[n // count % len(DASHES)])
            for n, name in enumerate(shown)
        }
    lines = {name: {"color": c, "ls": (0, d) if d else "-"} for name, (c, d) in found.items()}
    return {name: lines.get(name, {"color": FAINT, "ls": "-"}) for name in names}


def legend_of(styles: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries of the legend, with a single one for all grey curves."""
    faint = [name for name, style in styles.items() if style["color"] == FAINT]
    shown = {name: style for name, style in styles.items() if name not in faint}
    return shown | ({", ".join(faint): styles[faint[0]]} if faint else {})


def curves(ax: Any, table: Table, panel: str, styles: dict[str, dict[str, Any]]) -> None:
    """Draw means over runs along the axis with a band of one standard deviation, and thin single runs."""
    own = {c: cells for (p, c), cells in table.cells.items() if p == panel}
    faint = min(1, 3 / len(own))  # for many overlapping bands
    alone = all(styles[curve]["color"] != FAINT for curve in own)
    order = sorted(own, key=lambda curve: styles[curve]["color"] != FAINT)
    for curve in order:
        cells, style = own[curve], styles[curve]
        known = table.of(panel, curve)
        x = np.array([float(at) for at in known])
        values = [np.array(list(cells[at].values())) for at in known]
        mean = np.array([v.mean() for v in values])
        spread = np.array([v.std(ddof=1) if len(v) > 1 else 0 for v in values])
        prominent = style["color"] != FAINT
        for run in several_runs(cells, known) if alone else ():
            single = [cells[at].get(run, np.nan) for at in known]
            ax.plot(x, single, lw=0.4, alpha=0.25 * faint, **style)
        ax.plot(x, mean, lw=1.6, marker="o" if len(x) < 12 else "", ms=3, **style)
        if prominent:
            band = {"color": style["color"], "alpha": 0.15 * faint, "lw": 0}
            ax.fill_between(x, mean - spread, mean + spread, **band)
        if len(x) < 12 and x.max() > 20 * x.min() > 0:
            ax.set_xscale("log")
            ax.set_xticks(x, [f"{value:g}" for value in x], fontsize=8)
            ax.minorticks_off()
        elif table.log:
            ax.set_xscale("symlog", linthresh=1)
    if table.bounds:  # a band may exceed the possible values
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, table.bounds[0] - 1), min(high, table.bounds[1] + 1))


def several_runs(cells: dict[X, Values[str]], xs: list[X]) -> list[str]:
    """The runs in a row; none if each cell has a single run."""
    found = list(dict.fromkeys(run for x in xs for run in cells[x]))
    return found if len(found) > 1 else []


def dots(ax: Any, table: Table, x: X) -> None:
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


Pair = tuple[tuple[str, float], tuple[str, float]]  # two corruptions and their severities


def corrupted(stream: dict[str, Any], pairs: Sequence[Pair], position: int = 0) -> np.ndarray:
    """The source image at a position under each pair, without crop and flip, uint8 [n,H,W,3].

    stream: arguments of CCC as in a suite. All images have the same noise.
    """
    import torch  # deferred: not needed for listing the experiments

    from ... import datamodules
    from ...datamodules.corruptions import corrupt

    source = stream["source"]
    config = source if isinstance(source, dict) else {"class_path": source}
    arguments = dict(config.get("init_args", {}))
    if "crop" in arguments:
        arguments["crop"] = "center"
    images = getattr(datamodules, config["class_path"].rpartition(".")[2])(**arguments)
    index = torch.tensor([position])
    clean, _ = images.load(index, index)
    found = []
    for pair in pairs:
        image = clean
        for slot, (name, severity) in enumerate(pair, start=1):
            image = corrupt(image, name, severity, slot, stream.get("table", "imagenet"))
        found.append(image[0].permute(1, 2, 0).numpy())
    return np.stack(found)


class Axes(NamedTuple):
    """Two curves of a panel, as x and y; the panel is the label of the points."""

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


def draw_scatter(table: Table, pictures: Sequence[Sequence[Axes]], path: Path) -> Path:
    """Draw one panel per list of pairs of curves, with one colour per pair."""
    figure, places = panels(len(pictures), size=(3.8 * len(pictures), 3.4))
    for ax, several in zip(places, pictures, strict=True):
        for axes in several:
            x, y = (table.by_run(axes.panel, curve) for curve in (axes.x, axes.y))
            pairs = np.array([(x[key], y[key]) for key in x if key in y]).reshape(-1, 2)
            ax.plot(*pairs.T, "o", ms=4, alpha=0.6, label=axes.panel)
        ax.axhline(0, color="0.8", lw=0.8, zorder=0)
        describe(ax, x=several[0].x, y=several[0].y)
        if any(axes.panel for axes in several):
            ax.legend(frameon=False, fontsize=8)
    return saved(figure, path)
