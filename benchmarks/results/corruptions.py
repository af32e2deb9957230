"""Means over corruptions, as in AETTA's tables: every corruption has the same weight."""

from typing import Any

import numpy as np

from .run_statistics import Seeds
from .runs import Run, grouped

Pairs = tuple[tuple[str, float], ...]  # corruptions with severities; () for clean images


def pairs_of(row: dict[str, Any]) -> Pairs:
    """The corruptions of a record's row with their severities (0: unknown)."""
    return tuple((name, level) for name, level in row.get("corruptions") or ())


def shown(pairs: Pairs) -> str:
    """The corruptions as displayed in a report.

    >>> shown((("fog", 2.5), ("snow", 1.0)))
    'fog@2.5+snow@1'
    """
    return "+".join(f"{name}@{level:g}" if level else name for name, level in pairs) or "clean"


def severity(run: Run) -> str:
    """The severity of a stream's only corruption, such as "3" for fog at severity 3."""
    ((_, level),) = pairs_of(run.rows[0])
    return f"{level:g}"


def by_corruption(runs: list[Run], name: str) -> dict[Pairs, float]:
    """The mean of a record's column per corruption, over the batches of all runs."""
    found: dict[Pairs, list[float]] = {}
    for run in runs:
        for row, value in zip(run.rows, run.column(name), strict=True):
            if not np.isnan(value):
                found.setdefault(pairs_of(row), []).append(value)
    return {pairs: float(np.mean(values)) for pairs, values in found.items()}


def over_corruptions(runs: list[Run], name: str) -> float:
    """The mean over corruptions of the means over their batches."""
    means = by_corruption(runs, name)
    return float(np.mean(list(means.values()))) if means else float("nan")


def by_seed(runs: list[Run], name: str) -> Seeds:
    """`over_corruptions` for each seed."""
    seeds = grouped(runs, lambda run: run.seed)
    return {seed: over_corruptions(same, name) for seed, same in seeds.items()}


def names_in(row: dict[str, Any]) -> list[str]:
    """The names of a row's corruptions, "clean" if it has none; [] if the data are not a stream."""
    if row.get("corruptions") is None:
        return []
    return [name for name, _ in pairs_of(row)] or ["clean"]


def by_name(runs: list[Run], name: str) -> dict[str, tuple[float, int]]:
    """The mean of a column per corruption at any severity, and the number of batches.

    A batch with two corruptions counts for both.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        for row, value in zip(run.rows, run.column(name), strict=True):
            for corruption in names_in(row) if not np.isnan(value) else ():
                found.setdefault(corruption, []).append(value)
    return {corruption: (float(np.mean(v)), len(v)) for corruption, v in found.items()}
