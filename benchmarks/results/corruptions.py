"""Means over corruptions, as in AETTA's tables: each counts the same, however many batches it has."""

import numpy as np

from .runs import Run, grouped
from .statistics import Seeds


def by_corruption(runs: list[Run], name: str) -> dict[str, float]:
    """The mean of a record's column over the batches of each corruption, in all of the runs."""
    corruptions = np.concatenate([[row["corruptions"] for row in run.rows] for run in runs])
    values = np.concatenate([run.column(name) for run in runs])
    means = {c: values[(corruptions == c) & ~np.isnan(values)] for c in dict.fromkeys(corruptions)}
    return {c: float(v.mean()) for c, v in means.items() if len(v)}


def over_corruptions(runs: list[Run], name: str) -> float:
    """The mean over corruptions of the means over their batches."""
    means = by_corruption(runs, name)
    return float(np.mean(list(means.values()))) if means else float("nan")


def by_seed(runs: list[Run], name: str) -> Seeds:
    """`over_corruptions` for each seed."""
    seeds = grouped(runs, lambda run: run.seed)
    return {seed: over_corruptions(same, name) for seed, same in seeds.items()}


def pairs_in(segment: str) -> list[tuple[str, float]]:
    """The corruptions of a segment with their severities; NaN where it names none.

    >>> pairs_in("fog@2.5+snow@1")
    [('fog', 2.5), ('snow', 1.0)]
    """
    parts = [part.partition("@") for part in segment.split("+") if part]
    return [(name, float(severity or "nan")) for name, _, severity in parts]


def by_name(runs: list[Run], name: str) -> dict[str, tuple[float, int]]:
    """The mean of a column over the batches with each corruption, at any severity, and their number.

    A batch with two corruptions counts for both.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        for row, value in zip(run.rows, run.column(name), strict=True):
            for corruption, _ in pairs_in(str(row.get("corruptions") or "")):
                if not np.isnan(value):
                    found.setdefault(corruption, []).append(value)
    return {corruption: (float(np.mean(v)), len(v)) for corruption, v in found.items()}
