"""AETTA's error by dropout rate, dropout layer and network, and disagreement of independent models."""

from itertools import pairwise
from typing import Any

from ...results.run_statistics import Values, average
from ...results.runs import Run, grouped
from ..primitives import Part, below, falls
from ..table import Table
from ..tables import points

WIDTHS = ("width 8", "width 16", "width 24")
UNIT = "mean absolute error, points"


def table(runs: list[Run]) -> Table:
    """Mean absolute errors of variants of AETTA by network, averaged over the methods."""
    found = Table(unit=UNIT)
    for network, own in grouped(runs, lambda run: run.override).items():
        methods = list(grouped(own, lambda run: run.method).values())
        for name, arguments in own[0].provenance["estimators"].items():
            cells: list[Values[str]] = [points(same, f"{name}_error") for same in methods]
            found.extend(*variant(name, arguments), network, average(cells))
    return found


def variant(name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """The changed setting, as panel and curve: ("rate", "0.1"), ("after", "net.layer1"), ("", "AETTA")."""
    if arguments.get("dropout") is not None:
        return "rate", f"{arguments['dropout']:g}"
    layers = arguments.get("layers")
    return ("after", ", ".join(layers)) if layers else ("", name)


def places(table: Table) -> list[Part]:
    """Claim: dropout after any single stage has a smaller error than after all stages."""
    after = table.curves("after")
    return below(table, after, "AETTA", panel="after", than_panel="", x="width 16")


def falls_with_width(table: Table) -> list[Part]:
    """Claim: the error falls from each width to the next."""
    steps = pairwise(WIDTHS)
    return [p for a, b in steps for p in falls(table, panel="", curve="AETTA", start=a, to=b)]


def disagreement(runs: list[Run]) -> Table:
    """Mean absolute errors over corruptions of the two kinds of disagreement, by method."""
    found = Table(unit=UNIT)
    for label, same in grouped(runs, lambda run: run.label).items():
        for name in ("GDE", "IndependentGDE"):
            found.extend("", label, name, points(same, f"{name}_error"))
    return found
