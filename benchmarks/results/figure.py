"""The figure of accuracy over the stream, with one panel per setting, and the styles of all figures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ...drawing import panels, pyplot, saved
from .batch_means import curve, mean_curve
from .groups import Groups, Methods, groups, order
from .runs import Run

_STEP = 0.03  # distance between two rows of resets, in accuracy
_MARKERS = (
    "osD^vPX<>ph*"  # one for each method, at points of its own, so that equal curves are seen
)
_APART = 8  # points of a curve from one of its markers to the next
_Looks = dict[str, dict[str, Any]]  # the arguments of matplotlib for each method's lines
# Okabe and Ito's colour-blind safe palette, for everything except methods.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A800")
GREY = "#4D4D4D"  # for the source model and anything without a specific colour
METHODS = {
    "Source": GREY,
    "BNAdapt": "#56B4E9",
    "Tent": "#D55E00",
    "RDumb": "#0072B2",
    "ETA": "#E69F00",
    "EATA": "#009E73",
    "CoTTA": "#CC79A7",
    "SAR": "#882255",
    "RPL": "#B8A800",
    "SLR": "#332288",
    "CPL": "#44AA99",
    "RoTTA": "#AA4499",
    "SoTTA": "#661100",
}
_SPARE = ("#117733", "#6699CC", "#AA4466", "#999933", "#777799", "#CC6677")  # for other methods
# Lengths of dashes and gaps, in line widths.
DASHES: tuple[tuple[int, ...], ...] = ((), (5, 1), (1, 1), (5, 1, 1, 1))


class Style(NamedTuple):
    """The style of a method's lines."""

    colour: str
    dashes: tuple[int, ...]


def method_colour(name: str) -> str:
    """The colour of a method by its class name; methods outside Holdfast use the spare colours."""
    return METHODS.get(name) or _SPARE[crc32(name.encode()) % len(_SPARE)]


def method_styles(methods: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """The style of each (label, method class); labels of one colour differ in their dashes."""
    styles: dict[str, Style] = {}
    for label, name in methods:
        colour = method_colour(name)
        n = sum(style.colour == colour for style in styles.values())
        dashes = (4, 2) if name == "Source" and not n else DASHES[n % len(DASHES)]
        styles.setdefault(label, Style(colour, dashes))
    return styles


def styles_of(settings: Groups) -> dict[str, Style]:
    """The style of each method in all settings; the source model comes first, then by name."""
    methods = {label: runs for same in settings.values() for label, runs in same.items()}
    ordered = sorted(methods, key=lambda name: order(name, methods))
    return method_styles((label, methods[label][0].provenance["method"]) for label in ordered)


def draw(runs: Sequence[Run], path: Path) -> Path:
    """Draw the windowed accuracy of each method in each setting; returns the path.

    Lines are means over runs, with a band of one standard deviation. Resets are ticks below zero, one row
    per method.
    """
    settings = groups(runs)
    looks: _Looks = {
        label: {"color": style.colour, "ls": (0, style.dashes) if style.dashes else "-"}
        | {"lw": 1.6, "ms": 4, "marker": _MARKERS[n % len(_MARKERS)]}
        for n, (label, style) in enumerate(styles_of(settings).items())
    }
    columns = min(len(settings), 3) if len(settings) <= 9 else 4
    width, height = (8.0, 4.0) if columns == 1 else (10.0, 2.8 if columns < 4 else 2.0)
    size = (width, height * -(-len(settings) // columns) + 0.25 * len(looks) / 6 + 0.6)
    with pyplot().rc_context({"text.parse_math": False}):
        figure, axes = panels(len(settings), columns, size=size, sharex=True, sharey=True)
        rows = [
            _draw_panel(ax, title, methods, looks)
            for ax, (title, methods) in zip(axes, settings.items(), strict=True)
        ]
        axes[0].set_ylim(bottom=-_STEP * (max(rows) + 0.7))
        figure.supxlabel("images seen", fontsize=9)
        figure.supylabel("accuracy", fontsize=9)
        key = _legend(settings, looks)
        lines = -(-len(key) // 6)
        options: dict[str, Any] = {"ncols": -(-len(key) // lines), "frameon": False, "fontsize": 9}
        figure.legend(key.values(), key, loc="outside upper center", **options)
        return saved(figure, path, dpi=150)


def _legend(settings: Groups, looks: _Looks) -> dict[str, Any]:
    """What the lines, the shading and the ticks are, by name."""
    plt = pyplot()
    key: dict[str, Any] = {label: plt.Line2D([], [], **look) for label, look in looks.items()}
    by_method = [runs for methods in settings.values() for runs in methods.values()]
    if any(len(runs) > 1 for runs in by_method):
        key["shading: ± 1 sd over runs"] = plt.Rectangle((0, 0), 1, 1, color="0.5", alpha=0.3, lw=0)
    if any(run.resets for runs in by_method for run in runs):
        key["reset"] = plt.Line2D([], [], color="0.3", marker="|", ls="")
    return key


def _draw_panel(ax: Any, title: str, methods: Methods, looks: _Looks) -> int:
    """Draw the means and resets of each method; returns the number of rows of resets."""
    from matplotlib.ticker import EngFormatter  # deferred: slow import

    row = 0
    for n, (label, runs) in enumerate(methods.items()):
        look = looks[label]
        if curves := [curve(run) for run in runs if run.accuracy is not None]:
            band = mean_curve(curves)
            shade = {"color": look["color"], "alpha": 0.12, "lw": 0}
            ax.fill_between(band.index, band["low"], band["high"], **shade)
            apart = max(1, min(_APART, len(band) // 3))
            ax.plot(band["mean"], markevery=(n % apart, apart), **look)
        if any(run.resets for run in runs):
            row += 1
            resets = np.concatenate([r.column("images")[r.column("reset") > 0] for r in runs])
            ticks = {"color": look["color"], "ms": 5, "mew": 1, "ls": ""}
            ax.plot(resets, np.full(len(resets), -_STEP * row), marker="|", **ticks)
    ax.set_title(title, loc="left", fontsize=9)
    # Below zero are resets.
    ax.yaxis.set_major_formatter(lambda share, _: f"{abs(share):.0%}" if share > -_STEP / 2 else "")
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.axhline(0, color="0.6", lw=0.6)
    ax.grid(axis="y", color="0.92")
    return row
