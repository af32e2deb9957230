"""The variation of a stream's difficulty over time (Figure 2.1)."""

import numpy as np

from ...results.run_statistics import Values, above_zero
from ..primitives import Part
from ..table import Table


def more(table: Table, panel: str, than: str, curve: str = "Source") -> list[Part]:
    """Claim: the standard deviation along the stream exceeds the largest one in another panel."""
    highest = max(deviations(table, than, curve).values(), default=np.nan)
    own = deviations(table, panel, curve)
    found = None if np.isnan(highest) else above_zero({r: v - highest for r, v in own.items()})
    return [Part(f"{panel} - {than}", found, 0)]


def deviations(table: Table, panel: str, curve: str) -> Values[str]:
    """The standard deviation of each run over the windows of its stream."""
    values: dict[str, list[float]] = {}
    for windows in table.cells.get((panel, curve), {}).values():
        for run, value in windows.items():
            values.setdefault(run, []).append(value)
    return {run: float(np.std(own)) for run, own in values.items()}
