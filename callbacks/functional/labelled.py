"""Accuracy from labels for a few images of each batch: sampling and estimates, numpy."""

import math
from typing import NamedTuple

import numpy as np

from .sequences import Running, exact_interval, lower_bound, noted

Array = np.ndarray
UNIFORM = 0.5  # share of the choices that are independent of uncertainty


class Interval(NamedTuple):
    """An accuracy and the ends of its interval, in [0,1]."""

    mean: float
    low: float
    high: float


def chances(uncertainty: Array) -> Array:
    """The probability [n] of each image at each draw: half uniform, half proportional to uncertainty [n] >=
    0.
    """
    n, total = len(uncertainty), float(uncertainty.sum())
    even = np.full(n, 1 / n)
    return even if total == 0 else UNIFORM * even + (1 - UNIFORM) * uncertainty / total


def importance(chance: Array) -> Array:
    """The weights 1 / (n q) in (0, 2] of images [n] drawn with probabilities q."""
    return 1 / (len(chance) * chance)


def window_interval(correct: Array, level: float = 0.95) -> Interval:
    """The mean of labelled predictions [n], drawn evenly, with Clopper and Pearson's interval.

    It covers the window's mean accuracy, whatever the accuracy of each batch (Hoeffding 1956: the
    variance is largest if all are equal), provided that labels are drawn independently of correctness.
    """
    hits, n = int(np.sum(correct)), len(correct)
    return Interval(hits / n if n else math.nan, *exact_interval(hits, n, level))


def weighted_interval(wrong: Array, weights: Array, level: float = 0.95) -> Interval:
    """1 minus the importance-weighted error of labelled predictions [n] from non-uniform draws.

    The mean of w_i wrong_i is unbiased for the error of all images (Hansen & Hurwitz 1943). As w <= 2, its
    interval is the empirical Bernstein one of `lower_bound`, valid but wider than an exact one.
    """
    n, tail = len(wrong), (1 - level) / 2
    if not n:
        return Interval(math.nan, 0.0, 1.0)
    shares = UNIFORM * np.asarray(weights) * np.asarray(wrong)
    low, rest = (lower_bound(noted(Running(), part), tail) for part in (shares, 1 - shares))
    error = [bound / UNIFORM for bound in (shares.mean(), low, 1 - rest)]
    return Interval(*(float(1 - min(1.0, error[i])) for i in (0, 2, 1)))
