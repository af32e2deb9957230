"""Accuracy over the stream in windows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .run_statistics import Array
from .runs import Run

POINTS = 32  # number of windows along the stream
MOST = 24  # maximum number of panels on a page


class Curve(NamedTuple):
    """Windowed values of one run over the images seen."""

    images: Array  # [n], the centre of each window
    values: Array  # [n], NaN where unknown


class Mean(NamedTuple):
    """The mean curve of several runs and their standard deviation (0 for a single run)."""

    images: Array  # [n]
    values: Array  # [n]
    sd: Array  # [n]


def curve(run: Run, name: str = "accuracy") -> Curve:
    """A column of a run's record as windowed means."""
    images, column = run.column("images"), run.column(name)
    windows = np.array_split(np.arange(len(images)), min(POINTS, len(images)))
    known = [column[w][~np.isnan(column[w])] for w in windows]
    return Curve(
        np.array([images[window].mean() for window in windows]),
        np.array([values.mean() if len(values) else np.nan for values in known]),
    )


def mean_of(curves: Sequence[Curve]) -> Mean:
    """The mean curve up to the last image that all runs have processed, as unfinished runs are shorter."""
    longest = max(curves, key=lambda c: c.images[-1]).images
    values = np.array([np.interp(longest, *c, right=np.nan) for c in curves])
    known = ~np.isnan(values).any(0)
    several = len(curves) > 1
    sd = values[:, known].std(0, ddof=1) if several else np.zeros(int(known.sum()))
    return Mean(longest[known], values[:, known].mean(0), sd)
