"""Bounds and tests of a mean that hold at every step at once: pure functions of numbers in [0,1], numpy.

The numbers may depend on all before them, as those of an adapting model do; what is bounded is the mean
of their conditional expectations, each given the numbers before. Both kinds take constant memory.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, gammainc, gammaln, stdtrit

Array = np.ndarray
SHARES = 2.0 ** -np.arange(1, 9)  # of the capital that the bets put at risk
LARGEST = 1e300  # of a wealth, which would overflow otherwise


class Running(NamedTuple):
    """What a confidence sequence remembers of numbers in [0,1]."""

    n: int = 0
    total: float = 0.0
    spread: float = 0.0  # sum of squared differences from the mean predicted before each number

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else math.nan


def noted(state: Running, values: Array) -> Running:
    """The state after numbers [n] in [0,1]; each is predicted by the mean before, which begins at 1/2.

    >>> noted(Running(), np.array([1.0, 0.0]))
    Running(n=2, total=1.0, spread=0.8125)
    """
    values = np.asarray(values, dtype=np.float64)
    before = state.total + np.cumsum(values) - values
    predicted = (0.5 + before) / (1 + state.n + np.arange(len(values)))
    spread = state.spread + float(((values - predicted) ** 2).sum())
    return Running(state.n + len(values), state.total + float(values.sum()), spread)


def log_evidence(excess: float, spread: float, tight: float) -> float:
    """ln of the gamma-exponential mixture m(s, v) with scale 1 (Howard et al. 2021).

    The integral of exp(l s - (-ln(1-l) - l) v) over bets l in [0,1), where 1-l has a gamma density with
    shape and rate r. If s is the sum of numbers in [0,1] less their conditional expectations, and v their
    `Running.spread`, it exceeds ln(1/alpha) at any step with probability alpha at most.

    Args:
        excess: s; negative ones count as 0.
        spread: v.
        tight: r, near the spread at which the bound is tightest, times (2 ln(1/alpha))^-1.
    """
    s, v, r = max(excess, 0.0), spread, tight
    begin = r * math.log(r) - gammaln(r) - math.log(gammainc(r, r))
    end = gammaln(v + r) + math.log(gammainc(v + r, s + v + r)) - (v + r) * math.log(s + v + r)
    return float(begin + end + s + v)


def tight_at(spread: float, alpha: float) -> float:
    """The r of `log_evidence` for which the bound is about tightest at a spread (Howard et al. 2021)."""
    wanted = 2 * math.log(1 / alpha)
    return spread / (wanted + math.log(1 + wanted))


def lower_bound(state: Running, alpha: float, spread: float = 25.0) -> float:
    """The lower end of an empirical Bernstein confidence sequence (Howard et al. 2021, Theorem 4).

    At every step at once, with probability 1 - alpha, it is at most the mean of the numbers' conditional
    expectations: for losses of a model that adapts, its running risk. 25, the spread at which it is
    tightest, is that of 100 fair coins; the level is alpha for any.
    """
    limit, tight = math.log(1 / alpha), tight_at(spread, alpha)

    def beyond(excess: float) -> float:
        return log_evidence(excess, state.spread, tight) - limit

    if beyond(state.total) <= 0:
        return 0.0
    return (state.total - float(brentq(beyond, 0.0, state.total))) / state.n


class Bets(NamedTuple):
    """Capital of bets that a mean exceeds `level`, for each size of bet summed over their beginnings."""

    level: float
    n: int = 0
    wealth: Array = np.zeros(len(SHARES))
    highest: float = 1.0

    @property
    def value(self) -> float:
        """The capital, which began with 1: the evidence that some conditional mean has exceeded `level`.

        Where none has, it reaches 1/alpha at any step with probability alpha at most (Ville).
        """
        return float(self.wealth.mean()) + 1 / (self.n + 1)


def betted(state: Bets, values: Array) -> Bets:
    """The bets after numbers [n] in [0,1], by M_t = (M_{t-1} + w_t) (1 + l (x_t - level)) for each bet l.

    Bets l on E[x] > level (Waudby-Smith & Ramdas 2024), with l = 2^-1 to 2^-8 / level, begin at
    each step t with w_t = 1 / (t (t+1)) of the capital, which sum to 1. So what came before a change
    costs 2 ln(t) of evidence, where a running mean needs a multiple of t; as in an e-detector (Shin et
    al. 2024), but at level alpha for ever.
    """
    wealth, highest, count = state.wealth, state.highest, state.n
    for value in np.asarray(values, dtype=np.float64):
        count += 1
        gain = 1 + SHARES / state.level * (value - state.level)
        wealth = np.minimum((wealth + 1 / (count * (count + 1))) * gain, LARGEST)
        highest = max(highest, float(wealth.mean()) + 1 / (count + 1))
    return Bets(state.level, count, wealth, highest)


def exact_interval(hits: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval of a share (1934); (0, 1) without trials.

    >>> [round(end, 4) for end in exact_interval(19, 20)]
    [0.7513, 0.9987]
    """
    tail = (1 - level) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high


def exact_upper(hits: float, trials: float, alpha: float) -> float:
    """Clopper and Pearson's one-sided upper bound of a share, at level alpha."""
    return exact_interval(hits, trials, 1 - 2 * alpha)[1]


def next_limit(values: Array, alpha: float) -> float:
    """Student's prediction limit: the next of such numbers [n] is below it with probability alpha.

    >>> round(next_limit(np.array([0.6, 0.7, 0.8]), 0.05), 3)
    0.363
    """
    n = len(values)
    width = float(stdtrit(n - 1, 1 - alpha)) * math.sqrt(1 + 1 / n)
    return float(np.mean(values) - width * np.std(values, ddof=1))
