"""Bands around an estimated accuracy: pure functions of numbers, numpy."""

import math

import numpy as np
from scipy.special import stdtrit

Array = np.ndarray
Band = tuple[float, float]  # in [0,1]
_LEVEL, Z = 0.95, 1.959964  # of all bands; the normal quantile that belongs to it


def sampling_band(probabilities: Array) -> Band:
    """The band of the accuracy on images that are independently correct with probabilities [n].

    Mean +- 1.96 standard errors, sqrt(sum p (1 - p)) / n. NannyML's CBPE uses 3 standard errors of the
    reference's correctness instead, which fit only the reference's accuracy.

    >>> low, high = sampling_band(np.full(100, 0.5))
    >>> round(low, 3), round(high, 3)
    (0.402, 0.598)
    """
    mean, n = float(np.mean(probabilities)), len(probabilities)
    return around(mean, Z * math.sqrt(float((probabilities * (1 - probabilities)).sum())) / n)


def around(mean: float, half: float) -> Band:
    """mean +- half, within [0,1]."""
    return max(0.0, mean - half), min(1.0, mean + half)


def prediction_band(x: Array, y: Array, at: float, degree: int = 1) -> tuple[float, float, float]:
    """The polynomial through points x [k], y [k] by least squares: its value at a point, and its band.

    The 95 % prediction interval, value +- t s sqrt(1 + h) with k - degree - 1 degrees of freedom; it
    contains the y of a further point if errors are normal. Infinite where there are no degrees of freedom.

    >>> x = np.array([0.0, 1.0, 2.0])
    >>> tuple(round(v, 3) for v in prediction_band(x, np.array([0.0, 1.0, 1.0]), at=1.0))
    (0.667, -5.323, 6.656)
    """
    scale = np.ptp(x) or 1.0  # numbers near 1 are well conditioned
    design = np.vander((np.asarray(x, dtype=float) - x[0]) / scale, degree + 1)
    row = np.vander([(at - x[0]) / scale], degree + 1)[0]
    coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
    value, freedom = float(row @ coefficients), len(x) - degree - 1
    if freedom < 1:
        return value, -math.inf, math.inf
    error = float(((y - design @ coefficients) ** 2).sum()) / freedom
    leverage = float(row @ np.linalg.pinv(design.T @ design) @ row)
    half = float(stdtrit(freedom, (1 + _LEVEL) / 2)) * math.sqrt(error * (1 + leverage))
    return value, value - half, value + half
