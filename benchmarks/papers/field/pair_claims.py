"""Claims about pairs of methods."""

from typing import Any

from ..primitives import Part, above
from ..table import Table


def each_above(table: Table, pairs: list[list[str]], **where: Any) -> list[Part]:
    """Claim: the first curve of each pair lies above the second."""
    return [part for one, other in pairs for part in above(table, one, other, **where)]
