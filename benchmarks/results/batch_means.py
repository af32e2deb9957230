"""Means of a record's column over batches: along the stream, and by corruption."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .runs import Run

_WINDOWS = 32  # number of windows along a stream
Pairs = tuple[tuple[str, float], ...]  # corruptions with severities; () for clean images


def curve(run: Run, name: str = "accuracy") -> pd.Series:
    """Means of a column over windows of batches, by the number of images at the window's centre.

    NaN where no batch of a window has a value.
    """
    table = pd.DataFrame({"images": run.column("images"), name: run.column(name)})
    windows = np.array_split(table.index, min(_WINDOWS, len(table)))
    means = pd.DataFrame([table.loc[window].mean() for window in windows])
    return means.set_index("images")[name]


def mean_curve(curves: Sequence[pd.Series]) -> pd.DataFrame:
    """The mean of curves of several runs in [0,1], and one standard deviation (of one run: 0) around it.

    The band is clipped to [0,1]. The curve ends at the last image that all runs have processed, as
    unfinished runs are shorter.
    """
    longest = max((curve.index for curve in curves), key=lambda images: images[-1])
    values = [np.interp(longest, curve.index, curve, right=np.nan) for curve in curves]
    table = pd.DataFrame(np.transpose(values), longest).dropna()
    mean, sd = table.mean(axis=1), table.std(axis=1).fillna(0)
    return pd.DataFrame({"mean": mean, "low": mean - sd, "high": mean + sd}).clip(0, 1)


def pairs_of(row: dict[str, Any]) -> Pairs:
    """The corruptions of a record's row with their severities (0: unknown)."""
    return tuple((name, level) for name, level in row.get("corruptions") or ())


def names_in(row: dict[str, Any]) -> list[str]:
    """The names of a row's corruptions, "clean" if it has none; [] if the data are not a stream."""
    if row.get("corruptions") is None:
        return []
    return [name for name, _ in pairs_of(row)] or ["clean"]


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


def batches(runs: Sequence[Run], name: str) -> pd.DataFrame:
    """A column of the records with one row per batch, the run's method and `pairs_of` the row."""
    rows = [(run.label, pairs_of(row), row.get(name)) for run in runs for row in run.rows]
    return pd.DataFrame(rows, columns=["method", "pairs", name]).astype({name: float})


def by_name(runs: Sequence[Run], name: str) -> pd.DataFrame:
    """The mean of a column per corruption at any severity (rows) and method (columns).

    A batch with two corruptions counts for both.
    """
    table = batches(runs, name)
    table["corruption"] = [names_in(row) for run in runs for row in run.rows]
    means = table.explode("corruption").pivot_table(name, "corruption", "method", sort=False)
    return means.rename_axis(columns=None)
