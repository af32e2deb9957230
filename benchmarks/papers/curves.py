"""Tables along an axis: accuracy over the stream, and since an event, means over windows of each run."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..results.runs import Run
from ..results.statistics import Values
from .table import Table

WINDOWS = 20  # along a stream
Rows = list[dict[str, Any]]


def label(run: Run) -> str:
    """The method with its override."""
    return run.label


def over_images(
    runs: list[Run],
    panel: Callable[[Run], str],
    rows: Sequence[str] = (),
    curve: Callable[[Run], str] = label,
) -> Table:
    """Accuracy in percent in each twentieth of the stream; rows are "panel: curve"."""
    columns = [f"{100 * (n + 1) // WINDOWS}" for n in range(WINDOWS)]
    found: dict[str, dict[str, Values[str]]] = {}
    order = {name: n for n, name in enumerate(rows)}
    for run in sorted(runs, key=lambda run: order.get(curve(run), len(order))):
        cells = found.setdefault(f"{panel(run)}: {curve(run)}", {name: {} for name in columns})
        for name, accuracy in zip(columns, windows(run), strict=True):
            cells[name][run.place] = accuracy
    panels = dict.fromkeys(panel(run) for run in runs)
    by_panel = {n: found[n] for p in panels for n in found if n.startswith(f"{p}: ")}
    return Table(columns, by_panel, axis="share of the stream, %")


def windows(run: Run) -> list[float]:
    """Accuracy in percent in each twentieth."""
    return [100 * float(part.mean()) for part in np.array_split(run.column("accuracy"), WINDOWS)]


def spread(runs: list[Run]) -> dict[str, list[float]]:
    """The standard deviation of the source model's windows, for each setting and run."""
    found: dict[str, list[float]] = {}
    for run in (run for run in runs if not run.adapts):
        found.setdefault(run.setting, []).append(float(np.std(windows(run))))
    return found


def since(runs: list[Run], event: str, mark: Callable[[Rows], list[Any]]) -> Table:
    """Accuracy less that of BNAdapt on the same batches, in points, by the steps since an event.

    An event is where the marks of two batches differ; steps are counted in doubling bins: 1, 2, 4, ...
    The steps before the first event count from the start of the stream.
    """
    found: dict[str, dict[str, Values[str]]] = {}
    for run in runs:
        if run.bnadapt is None or run.bnadapt is run:
            continue
        gain = 100 * (run.column("accuracy") - run.bnadapt.column("accuracy")[: len(run.rows)])
        bins = np.floor(np.log2(steps_since(mark(run.rows)))).astype(int)
        row = found.setdefault(f"{event}: {run.label}", {})
        for number in range(bins.max() + 1):
            if (bins == number).any():
                row.setdefault(str(2**number), {})[run.place] = float(gain[bins == number].mean())
    columns = sorted({c for cells in found.values() for c in cells}, key=int)
    return Table(columns, found, "accuracy over BN, points", "steps since")


def steps_since(marks: list[Any]) -> np.ndarray:
    """For each batch how many there are since the mark last changed, itself included, [n]."""
    changed = [True, *(a != b for a, b in pairwise(marks))]
    count, counts = 0, []
    for fresh in changed:
        count = 1 if fresh else count + 1
        counts.append(count)
    return np.array(counts)
