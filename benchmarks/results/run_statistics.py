"""Means over runs, and differences between runs on the same images."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from ...intervals import exact_interval

_Array = np.ndarray
_Key = TypeVar("_Key", bound=Hashable)
Values = dict[_Key, float]  # one number per run (stream and seed)
Lifetimes = Collection[tuple[float, bool]]  # how long each run lasted, and whether it then ended
LEVEL = 0.95  # confidence level of intervals


class Difference(NamedTuple):
    """A mean difference and the ends of its interval, which are None for fewer than two values."""

    mean: float
    low: float | None
    high: float | None
    n: int


def exactly(number: float, n: int = 1) -> Difference:
    """A number without sampling error, which is its own interval."""
    return Difference(number, number, number, n)


def paired(ours: Mapping[_Key, float], theirs: Mapping[_Key, float]) -> Difference | None:
    """The mean of `ours` minus `theirs` over the runs in both, with Student's 95 % interval.

    None if no run is in both.
    """
    gains = np.array([ours[key] - theirs[key] for key in ours if key in theirs])
    gains = gains[~np.isnan(gains)]
    if not len(gains):
        return None
    n = len(gains)
    error = gains.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return student(gains.mean(), error, n - 1, n)


def student(mean: float, error: float, freedom: int, n: int) -> Difference:
    """A mean of `n` values with this standard error, and Student's 95 % interval."""
    if not freedom:
        return Difference(float(mean), None, None, n)
    half = stdtrit(freedom, (1 + LEVEL) / 2) * error
    return Difference(float(mean), float(mean - half), float(mean + half), n)


def unpaired(ours: Mapping[_Key, float], theirs: Mapping[_Key, float]) -> Difference | None:
    """The mean of `ours` minus the mean of `theirs` for different runs, with Welch's 95 % interval.

    None if either has fewer than two values.
    """
    first, second = list(ours.values()), list(theirs.values())
    if min(len(first), len(second)) < 2:
        return None
    from scipy.stats import ttest_ind  # deferred: slow import

    ends = ttest_ind(first, second, equal_var=False).confidence_interval(LEVEL)
    mean = float(np.mean(first) - np.mean(second))
    return Difference(mean, float(ends.low), float(ends.high), len(first) + len(second))


def above_zero(values: Mapping[_Key, float]) -> Difference | None:
    """The mean of values that are already differences, and its interval."""
    return paired(values, dict.fromkeys(values, 0.0))


def rank_correlated(ours: Mapping[_Key, float], theirs: Mapping[_Key, float]) -> Difference | None:
    """Spearman's correlation over the runs in both, in [-1,1], and its interval.

    The interval follows Bonett & Wright, Psychometrika 2000; a perfect correlation lies at its end. None
    with fewer than four runs, or if all numbers are the same.
    """
    common = [key for key in ours if key in theirs]
    pairs = np.array([(ours[key], theirs[key]) for key in common]).reshape(-1, 2)
    n = len(pairs)
    if n < 4 or not np.ptp(pairs, axis=0).all():
        return None
    from scipy.stats import spearmanr  # deferred: slow import

    rho = float(spearmanr(*pairs.T).statistic)
    half = ndtri((1 + LEVEL) / 2) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    centre = np.arctanh(np.clip(rho, -1 + 1e-12, 1 - 1e-12))
    low, high = np.tanh([centre - half, centre + half])
    return Difference(rho, float(low), float(high), n)


def share_of_runs(values: Mapping[_Key, Sequence[float]]) -> Difference | None:
    """The share of numbers above 0, with several per run, and its interval (Clopper & Pearson 1934).

    Numbers of one run are not independent, so the number of runs is the sample size of the interval. One
    run has none, as elsewhere.
    """
    numbers = [value for of_run in values.values() for value in of_run]
    if not numbers:
        return None
    share, n = float(np.mean([value > 0 for value in numbers])), len(values)
    low, high = exact_interval(share * n, n, LEVEL) if n > 1 else (None, None)
    return Difference(share, low, high, n)


def log_hazard_ratio(strata: Iterable[tuple[Lifetimes, Lifetimes]]) -> Difference | None:
    """The logarithm of the second group's hazard over the first's, with its 95 % interval.

    Peto's estimate, which the log-rank test compares with 0 (Mantel 1966; Yusuf et al. 1985), over strata
    of two groups of runs, each with (how long it lasted, whether it then ended). None without an end.
    """
    excess, variance, count = 0.0, 0.0, 0
    for groups in strata:
        rows = [(time, ended, n) for n, group in enumerate(groups) for time, ended in group]
        count += len(rows)
        for time in {time for time, ended, _ in rows if ended}:
            at_risk = [n for last, _, n in rows if last >= time]
            ends = [n for last, ended, n in rows if ended and last == time]
            share, size = np.mean(at_risk), len(at_risk)
            excess += sum(ends) - len(ends) * share
            if size > 1:
                left = (size - len(ends)) / (size - 1)
                variance += len(ends) * share * (1 - share) * left
    if not variance:
        return None
    half = ndtri((1 + LEVEL) / 2) / np.sqrt(variance)
    ratio = excess / variance
    return Difference(float(ratio), float(ratio - half), float(ratio + half), count)


def p_value(difference: Difference | None, least: float, most: float) -> float:
    """The two-sided p-value, in [0,1], of a mean that is below `least` or above `most`; 1 if it is not.

    Student's, from the interval's half on the side of the limit.
    """
    mean, low, high, n = difference or (0.0, None, None, 0)
    if low is None or high is None or least <= mean <= most:
        return 1.0
    gap, half = (least - mean, high - mean) if mean < least else (mean - most, mean - low)
    freedom = max(n - 1, 1)
    quantile = stdtrit(freedom, (1 + LEVEL) / 2)
    return float(2 * stdtr(freedom, -gap / half * quantile)) if half else 0.0


def holm(p_values: Sequence[float]) -> list[bool]:
    """Which hypotheses are rejected at the level 5 % over all of them (Holm 1979).

    >>> holm([0.04, 0.01, 0.03])
    [False, True, False]
    """
    rejected = [False] * len(p_values)
    for rank, n in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[n] * (len(p_values) - rank) > 1 - LEVEL:
            break
        rejected[n] = True
    return rejected


def deviation(values: Collection[float]) -> float | None:
    """The standard deviation over runs; None for fewer than two."""
    return float(np.std(list(values), ddof=1)) if len(values) > 1 else None


def mean(values: _Array | Sequence[float], weights: _Array | None = None) -> float | None:
    """The mean of the values that are not NaN; None if there are none."""
    values = np.asarray(values, dtype=float)
    known = ~np.isnan(values)
    if not known.any():
        return None
    return float(np.average(values[known], weights=None if weights is None else weights[known]))


def last_eighth(values: _Array) -> _Array:
    """The values of the last eighth of the batches, at least one."""
    return values[-max(1, len(values) // 8) :]
