"""Definitions of collapse: when a run falls below its source model.

Two properties are distinguished. *Below the source model*: the mean difference of accuracy on equal batches
lies below 0 with its whole interval, over the stream. *Collapsed*: over the last eighth of the stream
that is so, and the difference is larger than `margin`.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...alarms import WINDOW, is_below, margin

Array = np.ndarray
RESAMPLES, LEVEL, SEED = 2000, 0.95, 0  # of the bootstrap
BLOCKS = 5  # that a run is divided into at least


class Interval(NamedTuple):
    """Batches `first` to `last`, both included, in which something holds."""

    first: int
    last: int


class Gap(NamedTuple):
    """A mean difference of accuracies, ours less the source model's, and its interval, in [-1,1]."""

    mean: float
    low: float
    high: float

    @property
    def below(self) -> bool:
        return self.high < 0


class Spread(NamedTuple):
    """The standard error of a mean over batches, and its degrees of freedom."""

    error: float
    freedom: int


def spread(differences: Array, block: int) -> Spread:
    """The spread of the mean of `differences` [n], by the circular block bootstrap (Politis & Romano 1992).

    Neighbouring batches share a corruption and a model that has changed little, so whole blocks are
    drawn. They are twice as long as a corruption lasts (`block`, in batches), because a block may start
    within one; at least n^(1/3), and at most n / BLOCKS.
    """
    n = len(differences)
    length = max(1, min(max(2 * block, round(n ** (1 / 3))), n // BLOCKS))
    if (count := n // length) < 2:
        return Spread(0.0, 0)
    sums = np.cumsum(np.r_[0, differences, differences[:length]])
    starts = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, count))
    means = (sums[starts + length] - sums[starts]).mean(1) / length
    return Spread(float(means.std() * np.sqrt(count / (count - 1))), count - 1)


def gap(differences: list[Array], block: int = 1) -> Gap | None:
    """The mean of one or several runs' differences to the source model [n], batch by batch.

    The 95 % interval (Student's, with the error of `spread`) is of these runs: their batches are
    resampled, not the runs. None if no batch has a label.
    """
    known = [own for d in differences if len(own := d[~np.isnan(d)])]
    if not known:
        return None
    spreads = [spread(own, block) for own in known]
    mean, freedom = float(np.mean([own.mean() for own in known])), sum(s.freedom for s in spreads)
    if not freedom:
        return Gap(mean, mean, mean)
    from scipy.special import stdtrit  # here: it takes its time to import

    error = float(np.sqrt(sum(s.error**2 for s in spreads))) / len(known)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return Gap(mean, mean - half, mean + half)


def has_collapsed(values: Array, reference: Array, block: int = 1) -> bool | None:
    """Whether accuracies of batches [n] at the end of a stream are those of a collapsed model.

    They are if the mean lies below that of the source model's on the same batches by more than `margin`
    and the interval of the difference excludes 0. None if there are no labels.
    """
    found = gap([values - reference], block)
    return (
        None if found is None else bool(found.below and -found.mean > margin(np.nanmean(reference)))
    )


def lasting(names: list[Any]) -> int:
    """The mean number of batches that a corruption lasts, from the corruptions of each batch."""
    changes = sum(one != other for one, other in pairwise(names))
    return max(1, round(len(names) / (changes + 1)))


def trailing_mean(values: Array, window: int = WINDOW) -> Array:
    """The mean of each value and the up to `window` - 1 before it, [n] -> [n]; NaNs do not count."""
    known = ~np.isnan(values)
    sums, counts = (np.cumsum(np.r_[0, v]) for v in (np.where(known, values, 0), known))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - window, 0)
    with np.errstate(invalid="ignore"):
        return (sums[end] - sums[start]) / (counts[end] - counts[start])


def intervals(flags: Array, shortest: int = 1) -> list[Interval]:
    """The longest intervals in which `flags` [n] is true, if they last `shortest` batches."""
    padded = np.diff(np.r_[0, np.asarray(flags, dtype=int), 0])
    pairs = zip(np.flatnonzero(padded == 1), np.flatnonzero(padded == -1) - 1, strict=True)
    return [Interval(int(a), int(b)) for a, b in pairs if b - a + 1 >= shortest]


def below(values: Array, reference: Array, window: int = WINDOW) -> Array:
    """Whether the trailing mean of `values` is below that of the reference by more than `margin`, [n]."""
    return is_below(trailing_mean(values, window), trailing_mean(reference, window))


def stays_below(values: Array, reference: Array, window: int = WINDOW) -> int | None:
    """The first batch of the final interval in which the values are `below` the reference's; None if there
    is none.
    """
    ends = [i for i in intervals(below(values, reference, window)) if i.last == len(values) - 1]
    return ends[0].first if ends else None


class AlarmQuality(NamedTuple):
    """The quality of an alarm on one run."""

    collapses: int
    # Images from each noticed collapse to its alarm; negative: the alarm came first.
    delays: list[int]
    false_alarms: int
    images: int

    @property
    def missed(self) -> int:
        return self.collapses - len(self.delays)


def alarm_quality(
    collapsed: Array, alarm: Array, images: Array, window: int = WINDOW
) -> AlarmQuality:
    """Set alarms [n] against the true collapses [n]; `images` [n] are those seen after each batch.

    A collapse is an interval of at least `window` batches. The first alarm that begins during it, or up
    to `window` batches before, counts for it. Alarms that begin at any other time are false ones: an alarm
    that is always on detects nothing.
    """
    collapses, alarms = intervals(collapsed, window), intervals(alarm)
    heard = [
        [a for a in alarms if collapse.first - window <= a.first <= collapse.last]
        for collapse in collapses
    ]
    delays = [
        int(images[of_one[0].first] - images[collapse.first])
        for collapse, of_one in zip(collapses, heard, strict=True)
        if of_one
    ]
    true = {alarm for of_one in heard for alarm in of_one}
    return AlarmQuality(len(collapses), delays, len(alarms) - len(true), int(images[-1]))
