"""Means over runs, and differences between runs on the same images."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ...intervals import exact_interval

Array = np.ndarray
Key = TypeVar("Key", bound=Hashable)
Values = dict[Key, float]  # a number for each run (stream and seed)
Seeds = dict[int | None, float]  # a number for each seed
LEVEL = 0.95  # of intervals


class Difference(NamedTuple):
    """A mean of paired differences, and the ends of its interval; they are None with less than two."""

    mean: float
    low: float | None
    high: float | None
    n: int


def paired(ours: Mapping[Key, float], theirs: Mapping[Key, float]) -> Difference | None:
    """The mean of ours minus theirs over the runs that both have, with Student's 95 % interval.

    None if they have none in common.
    """
    gains = np.array([ours[key] - theirs[key] for key in ours if key in theirs])
    gains = gains[~np.isnan(gains)]
    if not len(gains):
        return None
    mean, n = float(gains.mean()), len(gains)
    if n == 1:
        return Difference(mean, None, None, n)
    from scipy.stats import t  # here: it takes its time to import

    half = float(t.ppf((1 + LEVEL) / 2, n - 1) * gains.std(ddof=1) / np.sqrt(n))
    return Difference(mean, mean - half, mean + half, n)


def unpaired(ours: Mapping[Key, float], theirs: Mapping[Key, float]) -> Difference | None:
    """The mean of ours minus the mean of theirs, for different runs, with Welch's 95 % interval.

    None if either has less than two.
    """
    first, second = list(ours.values()), list(theirs.values())
    if min(len(first), len(second)) < 2:
        return None
    from scipy.stats import ttest_ind  # here: it takes its time to import

    ends = ttest_ind(first, second, equal_var=False).confidence_interval(LEVEL)
    mean = float(np.mean(first) - np.mean(second))
    return Difference(mean, float(ends.low), float(ends.high), len(first) + len(second))


def above_zero(values: Mapping[Key, float]) -> Difference | None:
    """The mean of numbers that are differences already, and its interval."""
    return paired(values, dict.fromkeys(values, 0.0))


def rank_correlated(one: Mapping[Key, float], other: Mapping[Key, float]) -> Difference | None:
    """Spearman's correlation over the runs that both have, in [-1,1], and its interval.

    After Bonett & Wright, Psychometrika 2000, within which numbers that are all in order lie at the end;
    None with less than four runs, or where all numbers are the same.
    """
    common = [key for key in one if key in other]
    pairs = np.array([(one[key], other[key]) for key in common]).reshape(-1, 2)
    n = len(pairs)
    if n < 4 or not np.ptp(pairs, axis=0).all():
        return None
    from scipy.stats import norm, spearmanr  # here: it takes its time to import

    found = float(spearmanr(*pairs.T).statistic)
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 + found**2 / 2) / (n - 3))
    centre = np.arctanh(np.clip(found, -1 + 1e-12, 1 - 1e-12))
    low, high = np.tanh([centre - half, centre + half])
    return Difference(found, float(low), float(high), n)


def share_of_runs(values: Mapping[Key, Sequence[float]]) -> Difference | None:
    """The share of numbers above 0, several of each run, and its interval (Clopper & Pearson 1934).

    Numbers of one run are not independent, so the interval is that of as many numbers as there are runs.
    """
    numbers = [value for own in values.values() for value in own]
    if not numbers:
        return None
    share, n = float(np.mean([value > 0 for value in numbers])), len(values)
    return Difference(share, *exact_interval(share * n, n, LEVEL), n)


def deviation(values: Mapping[Key, float]) -> float | None:
    """The standard deviation over runs; None with less than two."""
    return float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else None


def average(several: Iterable[Mapping[Key, float]]) -> Values[Key]:
    """Their mean, for the runs that all of them have."""
    several = list(several)
    common = set.intersection(*map(set, several)) if several else set()
    return {key: float(np.mean([values[key] for values in several])) for key in common}


def mean(values: Array, weights: Array | None = None) -> float | None:
    """The mean of the values that are not NaN; None if all are."""
    known = ~np.isnan(values)
    if not known.any():
        return None
    return float(np.average(values[known], weights=None if weights is None else weights[known]))


def last_eighth(values: Array) -> Array:
    """The last eighth of the batches, at least one."""
    return values[-max(1, len(values) // 8) :]
