"""When a run falls below its source model, or is thought to: trailing means, intervals, alarms."""

from typing import NamedTuple

import numpy as np

Array = np.ndarray
WINDOW = 20  # batches that are averaged, and for which a collapse must last


class Interval(NamedTuple):
    """Batches `first` to `last`, both included, in which something holds."""

    first: int
    last: int


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
    """Where the trailing mean of `values` lies below that of the reference."""
    return trailing_mean(values, window) < trailing_mean(reference, window)


def stays_below(values: Array, reference: Array, window: int = WINDOW) -> int | None:
    """The batch from which on the trailing mean lies below the reference's to the end; None if at its
    end it does not."""
    ends = [i for i in intervals(below(values, reference, window)) if i.last == len(values) - 1]
    return ends[0].first if ends else None


def aetta_alarm(
    estimates: Array, window: int = 5, margin: float = 0.02, floor: float = 0.2
) -> Array:
    """AETTA's rule for a reset, at each batch: an estimate below the floor, or a sudden drop."""
    recent = trailing_mean(estimates, window)
    earlier = np.r_[np.full(min(window, len(recent)), np.nan), recent][: len(recent)]
    earlier[: 2 * window - 1] = np.nan
    return (estimates < floor) | (recent + margin < earlier)


def alarms(
    estimates: Array, reference: Array | None = None, window: int = WINDOW
) -> dict[str, Array]:
    """At which batches the estimates [n] raise an alarm, by rule; no labels are needed for that.

    "drop" is AETTA's rule for a reset; "below source" compares with what the same estimator says of the
    frozen source model, where it watched that too.
    """
    found = {"drop": aetta_alarm(estimates)}
    if reference is not None and not np.isnan(reference).all():
        found["below source"] = below(estimates, reference, window)
    return found
