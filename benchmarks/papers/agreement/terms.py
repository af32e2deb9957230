"""Statements about ensembles as sums of numbers that are above 0 where they hold."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ....callbacks.functional.agreement import Resampled
from ...results.statistics import Difference
from ..table import Claim, Table
from .evidence import Ensemble, Evidence, each_seed

Array = np.ndarray
LEAST_R2 = 0.95
Statistic = Callable[[Resampled], Array]  # one number for each row; errors and shares in points


def slope_gap(lines: Resampled) -> Array:
    """How far the agreement line's slope is from the accuracy line's."""
    return np.abs(lines.slope_gap)


def bias_gap(lines: Resampled) -> Array:
    """The same of the biases."""
    return np.abs(lines.bias_gap)


def error(lines: Resampled) -> Array:
    """Of ALine-S, mean over the models."""
    return 100 * lines.error


def percentage_error(lines: Resampled) -> Array:
    """The same as MAPE."""
    return 100 * lines.percentage


def r2(which: str) -> Statistic:
    """How far R^2 of a line exceeds what makes it one."""
    return lambda lines: getattr(lines, which)[:, 2] - LEAST_R2


def nearer_diagonal(lines: Resampled) -> Array:
    """How much nearer the agreement line's slope is to 1 than to the accuracy line's."""
    return slope_gap(lines) - np.abs(lines.agreement[:, 0] - 1)


def excess_inside(lines: Resampled) -> Array:
    """|mean agreement - mean accuracy| in distribution."""
    return 100 * np.abs(lines.excess[:, 0])


def excess_outside(lines: Resampled) -> Array:
    """Mean agreement less mean accuracy out of distribution."""
    return 100 * lines.excess[:, 1]


def best_confidence(lines: Resampled) -> Array:
    """The least error of AC, DoC and ATC, which an oracle has chosen, too."""
    return 100 * lines.others.min(1)


def best_percentage(lines: Resampled) -> Array:
    """The same as MAPE."""
    return 100 * lines.other_percentages.min(1)


def atc(lines: Resampled) -> Array:
    """The error of ATC by confidence or entropy, whichever is less."""
    return 100 * lines.others[:, 2:].min(1)


class Term(NamedTuple):
    """A statistic of an ensemble, meaned over shifts, with a sign or weight."""

    weight: float
    statistic: Statistic
    ensemble: Ensemble
    shifts: Sequence[str]


class Statement(NamedTuple):
    """A claim, and the sums of terms that are all above `least` if it holds."""

    text: str
    sums: Sequence[Sequence[Term]]
    least: float = 0.0


def less(
    statistic: Statistic, first: Ensemble, others: Iterable[Ensemble], shifts: Sequence[str]
) -> list[list[Term]]:
    """The first ensemble's statistic is less than each of the others'."""
    own = Term(-1, statistic, first, shifts)
    return [[Term(1, statistic, other, shifts), own] for other in others]


def each(
    statistic: Statistic, ensembles: Iterable[Ensemble], shifts: Sequence[str], weight: float = 1
) -> list[list[Term]]:
    """The statistic itself, of each ensemble."""
    return [[Term(weight, statistic, ensemble, shifts)] for ensemble in ensembles]


def claims(statements: Sequence[Statement]) -> tuple[Claim, ...]:
    """The statements as claims about a table that holds their intervals."""
    return tuple(Claim(own.text, by_intervals(own.text)) for own in statements)


def by_intervals(text: str) -> Callable[[Table], Iterable[Difference | None]]:
    """The differences of a claim that a table has; None if it has none."""
    return lambda table: table.intervals.get(text) or [None]


def measured(
    statements: Sequence[Statement], found: Evidence
) -> dict[str, list[Difference | None]]:
    """The sums of each statement with their intervals."""
    return {own.text: [value(sum_, own.least, found) for sum_ in own.sums] for own in statements}


def value(terms: Sequence[Term], least: float, found: Evidence) -> Difference | None:
    """The sum less `least`, over the seeds that all its ensembles have; None if they have none."""
    seen = [each_seed(found, term.ensemble, term.shifts) for term in terms]
    seeds = sorted(set.intersection(*map(set, seen)))
    if not seeds:
        return None

    def total(seed: int, kind: str) -> Array:
        parts = [
            term.weight * np.mean([term.statistic(getattr(one, kind)) for one in by_seed[seed]], 0)
            for term, by_seed in zip(terms, seen, strict=True)
        ]
        return np.sum(parts, 0) - least

    own = np.array([total(seed, "own")[0] for seed in seeds])
    return interval(own, np.stack([total(seed, "drawn") for seed in seeds]))


def interval(own: Array, drawn: Array) -> Difference:
    """From values of each seed [s] and of its ensembles drawn anew [s,r]: seeds are drawn anew, too.

    With one seed the interval is that of its models alone.
    """
    random = np.random.default_rng(0)
    count, repeats = drawn.shape
    chosen = random.integers(count, size=(repeats, count))
    means = drawn[chosen, np.arange(repeats)[:, None]].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    mean, low, high = (round(float(v), 4) for v in (own.mean(), low, high))
    return Difference(mean, low, high, count)
