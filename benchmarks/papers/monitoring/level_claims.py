"""Claims about percentages over the groups of a simulation or over runs."""

from typing import Any

from ...results.run_statistics import above_zero
from ..primitives import Names, Part, listed
from ..table import Table, X

FIRST = "streams with an alarm, %"


def at_least(
    table: Table, curve: Names, x: list[X], least: float, panel: str | None = None
) -> list[Part]:
    """Claim: curves are above a number at each x."""
    return parts(table, curve, x, panel, {"least": least})


def at_most(
    table: Table, curve: Names, x: list[X], most: float, panel: str | None = None
) -> list[Part]:
    """Claim: curves are below a number at each x."""
    return parts(table, curve, x, panel, {"most": most})


def parts(
    table: Table, curve: Names, x: list[X], panel: str | None, limit: dict[str, Any]
) -> list[Part]:
    place = (FIRST if FIRST in table.panels else "") if panel is None else panel
    return [
        Part(f"{one}, {at}", table.decided(above_zero(table.values(place, one, at))), **limit)
        for one in listed(curve)
        for at in x
    ]
