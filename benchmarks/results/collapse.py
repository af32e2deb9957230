"""Definitions of collapse: when a run's accuracy falls below its source model's.

There are two properties. *Below the source model*: over the whole stream, the interval of the mean
difference in accuracy on the same batches lies entirely below 0. *Collapsed*: the same holds over the last
eighth of the stream, and the difference exceeds `margin`.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...alarms import WINDOW, is_below, margin
from .run_statistics import Difference, student

Array = np.ndarray
_RESAMPLES, _SEED = 2000, 0  # settings of the bootstrap
_BLOCKS = 5  # minimum number of blocks in a run


class Interval(NamedTuple):
    """The batches `first` to `last`, inclusive, in which a condition is true."""

    first: int
    last: int


def _spread(differences: Array, block: int) -> tuple[float, int]:
    """The standard error of the mean of `differences` [n], and its degrees of freedom.

    By the circular block bootstrap (Politis & Romano 1992): neighbouring batches share a corruption and a
    nearly unchanged model, so whole blocks are resampled. A block is twice as long as a corruption lasts
    (`block`, in batches), because it may start within a corruption; at least n^(1/3), at most n / BLOCKS.
    """
    n = len(differences)
    length = max(1, min(max(2 * block, round(n ** (1 / 3))), n // _BLOCKS))
    if (count := n // length) < 2:
        return 0.0, 0
    sums = np.cumsum(np.r_[0, differences, differences[:length]])
    starts = np.random.default_rng(_SEED).integers(0, n, (_RESAMPLES, count))
    means = (sums[starts + length] - sums[starts]).mean(1) / length
    return float(means.std() * np.sqrt(count / (count - 1))), count - 1


def mean_and_error(
    differences: list[Array], block: int = 1
) -> tuple[float, float, int, int] | None:
    """The mean over runs of per-batch differences [n], its standard error (`_spread`), freedom, runs.

    None if no batch has labels.
    """
    known = [labelled for run in differences if len(labelled := run[~np.isnan(run)])]
    if not known:
        return None
    mean = float(np.mean([run.mean() for run in known]))
    errors, freedoms = zip(*(_spread(run, block) for run in known), strict=True)
    error = float(np.sqrt(sum(error**2 for error in errors))) / len(known)
    return mean, error, sum(freedoms), len(known)


def gap(differences: list[Array], block: int = 1) -> Difference | None:
    """The mean over one or several runs of the per-batch differences to the source model [n], in [-1,1].

    The 95 % interval (Student's t, with the error of `_spread`) applies to these runs: batches are
    resampled, runs are not. None if no batch has labels.
    """
    numbers = mean_and_error(differences, block)
    return None if numbers is None else student(*numbers)


def has_collapsed(values: Array, reference: Array, block: int = 1) -> bool | None:
    """Whether batch accuracies [n] at the end of a stream indicate a collapsed model.

    They do if their mean is below the source model's on the same batches by more than `margin` and the
    interval of the difference excludes 0. None without labels, and if they are too few for an interval.
    """
    difference = gap([values - reference], block)
    negative = is_negative(difference)
    if difference is None or negative is None:
        return None
    return negative and bool(-difference.mean > margin(np.nanmean(reference)))


def is_negative(difference: Difference | None) -> bool | None:
    """Whether the interval of a difference lies below 0; None without an interval."""
    return None if difference is None or difference.high is None else difference.high < 0


def lasting(names: list[Any]) -> int:
    """The mean number of consecutive batches with the same corruption, from each batch's corruptions."""
    changes = sum(before != after for before, after in pairwise(names))
    return max(1, round(len(names) / (changes + 1)))


def _trailing_mean(values: Array, window: int = WINDOW) -> Array:
    """The mean of each value and up to `window` - 1 preceding ones, [n] -> [n]; NaNs are ignored."""
    return pd.Series(values).rolling(window, min_periods=1).mean().to_numpy()


def intervals(flags: Array, shortest: int = 1) -> list[Interval]:
    """The maximal intervals in which `flags` [n] is true that last at least `shortest` batches."""
    padded = np.diff(np.r_[0, np.asarray(flags, dtype=int), 0])
    pairs = zip(np.flatnonzero(padded == 1), np.flatnonzero(padded == -1) - 1, strict=True)
    return [Interval(int(a), int(b)) for a, b in pairs if b - a + 1 >= shortest]


def below(values: Array, reference: Array, window: int = WINDOW) -> Array:
    """Whether the trailing mean of `values` is below that of the reference by more than `margin`, [n]."""
    return is_below(_trailing_mean(values, window), _trailing_mean(reference, window))


def stays_below(values: Array, reference: Array, window: int = WINDOW) -> int | None:
    """The first batch after which the values stay `below` the reference to the end; None if none."""
    ends = [i for i in intervals(below(values, reference, window)) if i.last == len(values) - 1]
    return ends[0].first if ends else None
