"""Bounds and tests of a mean that hold at every step at once: pure functions of numbers in [0,1], numpy.

The numbers may depend on all earlier ones, as for an adapting model; the bounds are for the mean of their
conditional expectations, each given the numbers before. Both kinds take constant memory. In numbers
[n,...], the further dimensions are independent streams; states have these dimensions.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

from ...intervals import exact_interval

Array = np.ndarray
SHARES = 2.0 ** -np.arange(1, 9)  # of the capital that a bet risks
_TIGHTEST = 25.0
_LARGEST = 1e300  # of a wealth, which would overflow otherwise
_AT_ONCE = 64  # numbers, whose products neither overflow nor vanish


class Running(NamedTuple):
    """The state of a confidence sequence of numbers in [0,1]."""

    n: int = 0
    total: Any = 0.0
    spread: Any = 0.0  # sum of squared differences from the mean predicted before each number

    @property
    def mean(self) -> Any:
        return self.total / self.n if self.n else math.nan


def noted(state: Running, values: Array) -> Running:
    """The state after numbers [n] in [0,1]; each is predicted by the mean before, which begins at 1/2.

    >>> noted(Running(), np.array([1.0, 0.0]))
    Running(n=2, total=1.0, spread=0.8125)
    """
    values = np.asarray(values, dtype=np.float64)
    before = state.total + np.cumsum(values, axis=0) - values
    known = (1 + state.n + np.arange(len(values))).reshape(-1, *[1] * (values.ndim - 1))
    sums = values.sum(0), ((values - (0.5 + before) / known) ** 2).sum(0)
    total, spread = map(float, sums) if values.ndim == 1 else sums
    return Running(state.n + len(values), state.total + total, state.spread + spread)


def log_evidence(excess: Any, spread: Any, tight: float) -> Any:
    """ln of the gamma-exponential mixture m(s, v) with scale 1 (Howard et al. 2021).

    The integral of exp(l s - (-ln(1-l) - l) v) over bets l in [0,1), where 1-l has a gamma density with
    shape and rate r. If s is the sum of numbers in [0,1] less their conditional expectations, and v their
    `Running.spread`, it exceeds ln(1/alpha) at any step with probability alpha at most.

    Args:
        excess: s; negative ones count as 0.
        spread: v.
        tight: r, near the spread at which the bound is tightest, times (2 ln(1/alpha))^-1.
    """
    s, v, r = np.maximum(excess, 0.0), spread, tight
    begin = r * np.log(r) - gammaln(r) - np.log(gammainc(r, r))
    end = gammaln(v + r) + np.log(gammainc(v + r, s + v + r)) - (v + r) * np.log(s + v + r)
    return begin + end + s + v


def tight_at(spread: float, alpha: float) -> float:
    """The r of `log_evidence` with about the tightest bound at a spread (Howard et al. 2021)."""
    wanted = 2 * math.log(1 / alpha)
    return spread / (wanted + math.log(1 + wanted))


def exceeds(state: Running, level: Any, alpha: float) -> Any:
    """Whether `lower_bound` at level alpha is above `level`, without computing it."""
    excess = state.total - state.n * level
    evidence = log_evidence(excess, state.spread, tight_at(_TIGHTEST, alpha))
    return (excess > 0) & (evidence > -np.log(alpha))


def lower_bound(state: Running, alpha: float) -> float:
    """The lower end of an empirical Bernstein confidence sequence (Howard et al. 2021, Theorem 4).

    Simultaneously at every step, with probability 1 - alpha, it is at most the mean of the numbers'
    conditional expectations: for losses of a model that adapts, its running risk. It is tightest at a
    spread of TIGHTEST, that of 100 fair coins; the level is alpha at any spread.
    """
    limit, tight = math.log(1 / alpha), tight_at(_TIGHTEST, alpha)

    def beyond(excess: float) -> float:
        return float(log_evidence(excess, state.spread, tight)) - limit

    if beyond(state.total) <= 0:
        return 0.0
    return (state.total - float(brentq(beyond, 0.0, state.total))) / state.n


class Bets(NamedTuple):
    """Capital of bets that a mean exceeds `level`: for each bet size, a sum over the bets' first steps."""

    level: Any
    n: int = 0
    wealth: Array = np.zeros(len(SHARES))  # [...,8]
    highest: Any = 1.0  # value so far

    @property
    def value(self) -> Any:
        """The capital, initially 1: the evidence that some conditional mean has exceeded `level`.
        If none has, it reaches 1/alpha at any step with probability alpha at most (Ville).
        """
        return self.wealth.mean(-1) + 1 / (self.n + 1)


def betted(state: Bets, values: Array) -> Bets:
    """The bets after numbers [n] in [0,1], by M_t = (M_{t-1} + w_t) (1 + l (x_t - level)) for each bet l.

    Bets l on E[x] > level (Waudby-Smith & Ramdas 2024), with l = 2^-1 to 2^-8 / level, begin at
    each step t with w_t = 1 / (t (t+1)) of the capital, which sum to 1. So the time before a change
    costs only 2 ln(t) of evidence, whereas a running mean needs a multiple of t. An e-detector
    (Shin et al. 2024) is similar; here the level alpha holds without a time limit.
    """
    gains = np.asarray(values, dtype=np.float64)[..., None] / np.asarray(state.level)[..., None] - 1
    for start in range(0, len(gains), _AT_ONCE):
        factors = 1 + SHARES * gains[start : start + _AT_ONCE]
        products = factors.cumprod(0)
        steps = state.n + np.arange(1, len(factors) + 1).reshape(-1, *[1] * (factors.ndim - 1))
        # A bet that begins at a step has all later factors, its own included.
        begun = (factors / (products * steps * (steps + 1))).cumsum(0)
        with np.errstate(over="ignore"):
            wealth = np.minimum(products * (state.wealth + begun), _LARGEST)
        values_then = wealth.mean(-1) + 1 / (steps[..., 0] + 1)
        highest = np.maximum(state.highest, values_then.max(0))
        state = Bets(state.level, state.n + len(factors), wealth[-1], highest)
    return state


class Onset(NamedTuple):
    """Where the evidence for a mean above a level begins: of each bet size, the bet with most capital."""

    n: int = 0
    wealth: Array = np.zeros(len(SHARES))  # [8]
    start: Array = np.ones(len(SHARES), dtype=int)  # the first number that the bet is on, from 1
    total: Array = np.zeros(len(SHARES))  # the sum of the numbers since

    @property
    def best(self) -> tuple[int, float]:
        """The start of the bet with most capital, and the mean of the numbers since."""
        k = int(self.wealth.argmax())
        return int(self.start[k]), float(self.total[k] / (self.n - self.start[k] + 1))


def followed(state: Onset, values: Array, level: float) -> Onset:
    """The onset after numbers [n] in [0,1], of bets as in `betted` that begin with the first of them.

    >>> followed(followed(Onset(), np.zeros(9), level=0.2), np.ones(9), level=0.2).best
    (10, 1.0)
    """
    n, wealth, start, total = state
    first = 1 / ((n + 1) * (n + 2))
    fresh = wealth < first
    factors = (1 + SHARES * (np.asarray(values, dtype=np.float64)[:, None] / level - 1)).prod(0)
    with np.errstate(over="ignore"):
        wealth = np.minimum(np.where(fresh, first, wealth) * factors, _LARGEST)
    start, total = np.where(fresh, n + 1, start), np.where(fresh, 0, total) + np.sum(values)
    return Onset(n + len(values), wealth, start, total)


def exact_upper(hits: float, trials: float, alpha: float) -> float:
    """Clopper and Pearson's one-sided upper bound of a share, at level alpha."""
    return exact_interval(hits, trials, 1 - 2 * alpha)[1]
