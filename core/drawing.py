"""What all pictures share: sizes, type, colours, markers, bands, legends; files with reproducible bytes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from . import HoldfastError
from .files import whole_file

ONE, TWO = 3.35, 6.9  # widths of a paper's one and two columns, inches
DPI = 160  # of PNG files
# By the suffix of a file: what would differ from one writing to the next.
METADATA = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.93",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
}
GREY = "#4D4D4D"  # for the source model and anything without a specific colour
# Okabe and Ito's colour-blind safe palette, for everything except methods.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A800")
# The colour of each method in all pictures.
_TABLE = (
    "Source 4D4D4D, BNAdapt 56B4E9, Tent D55E00, RDumb 0072B2, ETA E69F00, EATA 009E73, "
    "CoTTA CC79A7, SAR 882255, RPL B8A800, SLR 332288, SLR-SGD 8888FF, CPL 44AA99, "
    "RoTTA AA4499, SoTTA 661100, LAME 22AA11, DeYO FF1166, ROID CCAA88, CMF 445500, "
    "SANTA FF8877, NOTE 99BB66, PeTTA FF77FF, GTTA 885500, BNEMA 0055DD, RMT 443366, "
    "REM BB1122, MEMO BBAAEE, TPT 005533, TDA 8811AA, BATCLIP 995555, VTE 117722, T3A 227788, "
    "SHOT 00CC77, AdaContrast 778866, LCoTTA FF6699, FOA 887799, NEO 88BB00, PEA 443311, "
    "TTAug FF33AA, ZeroSiam DD9955"
)
METHODS = {name: f"#{colour}" for name, colour in map(str.split, _TABLE.split(", "))}
_SPARE = ("#998833", "#2299FF", "#004466", "#668800", "#6699CC", "#AA4466")  # for other methods
# Lengths of dashes and gaps, in line widths.
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1, 1.5), (5, 1.5, 1, 1.5))
_MARKERS = "osD^vPX<>ph*"
_APART = 8  # points of a curve from one of its markers to the next
_DENSITY = 15  # characters of a legend in an inch


class Style(NamedTuple):
    """How a curve is drawn."""

    colour: str
    dashes: tuple[float, ...] = ()
    marker: str = "o"


def styles(names: Iterable[str], classes: Mapping[str, str] | None = None) -> dict[str, Style]:
    """The style of each curve; a method has the same colour in every picture.

    Of several curves of one colour, all but the first are dashed. Names that differ in a number only are
    coloured in order. classes: the method of each name; without it, names that begin with no method's name
    are coloured one after another.
    """
    names = list(dict.fromkeys(names))
    methods = {name: method_of(name) or (classes or {}).get(name) for name in names}
    colours = {name: method_colour(method) for name, method in methods.items() if method}
    others = [name for name in names if name not in colours]
    palette = _scale(others) or [c for c in COLOURS if c not in colours.values()]
    colours |= {name: palette[n % len(palette)] for n, name in enumerate(others)}
    result: dict[str, Style] = {}
    for n, name in enumerate(names):
        before = sum(style.colour == colours[name] for style in result.values())
        dashes = _DASHES[before % len(_DASHES)] or ((4, 2) if methods[name] == "Source" else ())
        result[name] = Style(colours[name], dashes, _MARKERS[n % len(_MARKERS)])
    return result


def method_colour(name: str) -> str:
    """The colour of a method by its name, or by one that begins with it, such as "Tent, rate 0.1"."""
    return METHODS.get(method_of(name) or "") or _SPARE[crc32(name.encode()) % len(_SPARE)]


def method_of(name: str) -> str | None:
    """The method whose name a label begins with, whatever its case; the longest of several."""
    fitting = (m for m in METHODS if re.match(rf"{m}(?!\w)", name, re.IGNORECASE))
    return max(fitting, key=len, default=None)


def _scale(names: Sequence[str]) -> list[str]:
    """Colours in order for three or more names that differ in a number only, otherwise []."""
    if len(names) < 3 or len({re.sub(r"\d[\d.]*", "", name) for name in names}) > 1:
        return []
    import matplotlib
    from matplotlib.colors import to_hex

    return [to_hex(matplotlib.colormaps["viridis"](n / len(names))) for n in range(len(names))]


@contextmanager
def panels(
    path: Path,
    count: int = 1,
    columns: int | None = None,
    *,
    height: float = 2.0,
    width: float | None = None,
    framed: bool = False,
    **options: Any,
) -> Iterator[tuple[Any, list[Any]]]:
    """A figure with `count` panels, to draw in; written at the end as .png, .pdf or .svg.

    Labels and numbers that a panel shares with its neighbour are shown once.

    Args:
        path: the file; its folder is created.
        count: number of panels.
        columns: panels in a row (default: all).
        height: of a panel, inches.
        width: of the figure, inches (default: one column for one panel, otherwise two).
        framed: draw all four spines of a panel.
        options: passed to `Figure.subplots`.

    Raises:
        HoldfastError: if the path has another suffix.
    """
    import matplotlib
    from matplotlib.figure import Figure

    form = path.suffix[1:]
    if form not in METADATA:
        raise HoldfastError(f"{path} is not a picture's name. Pass a .png, .pdf or .svg file.")
    columns = columns or count
    look: Any = STYLE | {f"axes.spines.{side}": framed for side in ("top", "right")}
    with matplotlib.rc_context(look):
        rows = -(-count // columns)
        size = width or (ONE if count == 1 else TWO), height * rows
        figure = Figure(size, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, **options).flatten()
        for ax in grid[count:]:
            ax.set_visible(False)
        axes = list(grid[:count])
        yield figure, axes
        _label_once(figure, axes, columns, height, bool(options.get("sharex")))
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            figure.savefig(partial, dpi=DPI, format=form, metadata=METADATA[form])


def _label_once(
    figure: Any, axes: Sequence[Any], columns: int, height: float, shared: bool
) -> None:
    """Show labels that panels share once, and wrap those that are longer than their axis."""
    xs, ys = [ax.get_xlabel() for ax in axes], [ax.get_ylabel() for ax in axes]
    width, common = figure.get_figwidth() / columns, shared and len(axes) > 1 and len({*xs}) == 1
    if common:
        figure.supxlabel(xs[0], fontsize=STYLE["axes.labelsize"])
    for n, ax in enumerate(axes):
        below = xs[n] if n + columns >= len(axes) else xs[n + columns]
        ax.set_xlabel("" if common or (below == xs[n] and n + columns < len(axes)) else xs[n])
        ax.set_ylabel("" if n % columns and ys[n] == ys[n - 1] else _wrapped(ys[n], height - 0.3))
        ax.set_title(_wrapped(ax.get_title(loc="left"), width))
        if shared and n + columns >= len(axes):
            ax.tick_params(labelbottom=True)  # also above a panel that is left out


def _wrapped(text: str, inches: float) -> str:
    return "\n".join(fill(line, int(_DENSITY * inches)) for line in text.split("\n"))


def plot(ax: Any, x: Any, y: Any, label: str, style: Style) -> None:
    """Draw a curve, with markers at points of its own if it is long, so that none hides another."""
    apart = 1 if len(x) < 12 else min(_APART, len(x) // 3)
    every = _MARKERS.index(style.marker) % apart, apart
    dashes = (0, style.dashes) if style.dashes else "-"
    look = {"color": style.colour, "marker": style.marker, "markevery": every}
    ax.plot(x, y, ls=dashes, label=label, **look)


def shade(ax: Any, x: Any, low: Any, high: Any, colour: str, **options: Any) -> None:
    """Draw the band of a curve."""
    ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, **options)


def legend(figure: Any, axes: Sequence[Any], shading: str = "", **others: Any) -> None:
    """Explain above the panels what is labelled in them, the shading, and other artists by name."""
    from matplotlib.patches import Patch

    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if shading:
        handles[f"shading: {shading}"] = Patch(color="0.5", alpha=0.3, lw=0)
    handles |= others
    labels, room = list(handles), figure.get_figwidth() * _DENSITY
    fitting = (n for n in range(1, len(labels) + 1) if _legend_width(labels, n) <= room)
    columns = max(fitting, default=1)
    figure.set_figheight(figure.get_figheight() + 0.16 * -(-len(labels) // columns))
    figure.legend(handles.values(), labels, loc="outside upper center", ncols=columns)


def _legend_width(labels: Sequence[str], columns: int) -> int:
    """The width of a legend that is filled column by column, in characters; a handle has nine."""
    parts = np.array_split(labels, columns)
    return sum(max(map(len, part)) + 9 for part in parts)
