"""How many images a method needs after a change of the corruption until it is as accurate as it gets."""

from itertools import groupby
from typing import NamedTuple

import numpy as np

from .batch_means import names_in
from .runs import Run

MARGIN = 0.05  # of accuracy
_WINDOW = 4  # batches whose mean accuracy counts
_SHORTEST = 2 * _WINDOW  # batches with one corruption


class RecoveryTime(NamedTuple):
    """Over the changes of the corruption, in images."""

    median: float
    worst: int


def recovery_time(run: Run) -> RecoveryTime | None:
    """Images after each change of the corruptions until the accuracy is within `MARGIN` of its level.

    The level is the mean accuracy over the second half of the batches with these corruptions (at any
    severity). The accuracy is back at the first batch from which the mean of four is not below the level
    by more than the margin; the images before this batch count. The start of the stream is no change.
    None if no corruption that follows a change lasts eight batches, or labels are unknown.
    """
    accuracy = run.column("accuracy")
    sizes = np.diff(run.column("images"), prepend=0)
    delays, first = [], 0
    for _, rows in groupby(run.rows, names_in):
        last = first + len(list(rows))
        values = accuracy[first:last]
        if first and len(values) >= _SHORTEST and not np.isnan(values).any():
            means = np.convolve(values, np.full(_WINDOW, 1 / _WINDOW), "valid")
            level = values[len(values) // 2 :].mean()
            back = next(iter(np.flatnonzero(means >= level - MARGIN)), len(values))
            delays.append(int(sizes[first : first + back].sum()))
        first = last
    return RecoveryTime(float(np.median(delays)), max(delays)) if delays else None
