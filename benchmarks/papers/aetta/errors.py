"""AETTA's error against that of every other estimator (Tables 1 and 2)."""

from ..primitives import Part, below
from ..table import Table


def least(table: Table, name: str = "AETTA", x: str = "Avg") -> list[Part]:
    """In every data set an estimator's error is below each other's."""
    return [
        part
        for panel in table.panels
        if name in table.curves(panel)
        for other in table.curves(panel)
        if other != name
        for part in below(table, name, other, panel=panel, x=x)
    ]
