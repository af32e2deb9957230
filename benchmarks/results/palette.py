"""The colours and dashes of figures."""

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

# Okabe and Ito's colour-blind safe palette, for everything except methods.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A800")
GREY = "#4D4D4D"  # for the source model and anything without a specific colour
METHODS = {
    **{"Source": GREY, "BNAdapt": "#56B4E9", "Tent": "#D55E00", "RDumb": "#0072B2"},
    **{"ETA": "#E69F00", "EATA": "#009E73", "CoTTA": "#CC79A7", "SAR": "#882255"},
    **{"RPL": "#B8A800", "SLR": "#332288", "CPL": "#44AA99", "RoTTA": "#AA4499"},
    **{"SoTTA": "#661100"},
}
SPARE = ("#117733", "#6699CC", "#AA4466", "#999933", "#777799", "#CC6677")  # for other methods
# Lengths of dashes and gaps, in line widths.
DASHES: tuple[tuple[int, ...], ...] = ((), (5, 1), (1, 1), (5, 1, 1, 1))


class Style(NamedTuple):
    """The style of a method's lines."""

    colour: str
    dashes: tuple[int, ...]


def method_colour(name: str) -> str:
    """The colour of a method by its class name; methods outside Holdfast use the spare colours."""
    return METHODS.get(name) or SPARE[crc32(name.encode()) % len(SPARE)]


def method_styles(methods: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """The style of each (label, method class); labels of one colour differ in their dashes."""
    styles: dict[str, Style] = {}
    for label, name in methods:
        colour = method_colour(name)
        n = sum(style.colour == colour for style in styles.values())
        dashes = (4, 2) if name == "Source" and not n else DASHES[n % len(DASHES)]
        styles.setdefault(label, Style(colour, dashes))
    return styles
