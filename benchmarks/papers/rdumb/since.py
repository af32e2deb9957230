"""Figure 2.5b: the speed of adaptation after a reset or a change of corruption (thesis §2.6)."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from ...results.batch_means import pairs_of
from ...results.runs import Run
from ..table import Table
from ..tables import steps_since

Rows = list[dict[str, Any]]


def table(runs: list[Run]) -> Table:
    """Accuracy minus BNAdapt's on the same batches in points, by the steps since either event."""
    found = Table(unit="accuracy over BN, points", axis="steps since", log=True)
    add(found, runs, "since the corruption changed", changes)
    resets = [run for run in runs if run.resets]
    add(found, resets, "since the last reset", resets_so_far)
    return found


def changes(rows: Rows) -> list[Any]:
    return [pairs_of(row) for row in rows]


def resets_so_far(rows: Rows) -> list[Any]:
    return list(accumulate(row["reset"] for row in rows))


def add(found: Table, runs: list[Run], event: str, mark: Callable[[Rows], list[Any]]) -> None:
    """Add the numbers by steps since an event (a change of mark between batches), in doubling bins.

    Steps before the first event count from the start of the stream.
    """
    for run in runs:
        if run.bnadapt is None or run.bnadapt is run:
            continue
        gain = 100 * (run.column("accuracy") - run.bnadapt.column("accuracy")[: len(run.rows)])
        bins = np.floor(np.log2(steps_since(mark(run.rows)))).astype(int)
        for number in range(bins.max() + 1):
            if (bins == number).any():
                found.add(event, run.label, 2**number, run.place, gain[bins == number].mean())
