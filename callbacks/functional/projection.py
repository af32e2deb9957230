"""ProjNorm (Yu et al. 2022): a score, not an estimate, of how far a shift moves a network's parameters."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

Array = np.ndarray


def projection_norm(reference: Iterable[Array], pseudo: Iterable[Array]) -> float:
    """||theta_ref - theta_ood||_2 over all parameters, in the same order; 0 or more.

    Both start from the same parameters: theta_ref was trained on labelled data from the training
    distribution, theta_ood for the same number of steps on out-of-distribution data with the
    model's predictions as labels.

    >>> projection_norm([np.array([1.0, 2.0]), np.zeros(1)], [np.array([1.0, 5.0]), np.full(1, 4.0)])
    5.0
    """
    both = zip(reference, pseudo, strict=True)
    return float(np.sqrt(sum(np.square(np.asarray(a) - b).sum() for a, b in both)))


class Correlation(NamedTuple):
    """The correlation of a score with the accuracy over several models."""

    r2: float  # of the linear correlation, in [0,1]
    spearman: float  # of the ranks, in [-1,1]


def correlation(score: Array, truth: Array) -> Correlation:
    """R^2 and Spearman correlation of scores [m] with accuracies [m]; NaN if either is constant.

    >>> correlation(np.array([3.0, 2.0, 1.0]), np.array([0.1, 0.2, 0.3]))
    Correlation(r2=1.0, spearman=-1.0)
    """
    if np.ptp(score) == 0 or np.ptp(truth) == 0:
        return Correlation(float("nan"), float("nan"))
    from scipy.stats import rankdata  # here: its import is slow

    linear, ranks = (
        np.corrcoef(a, b)[0, 1] for a, b in ((score, truth), (rankdata(score), rankdata(truth)))
    )
    return Correlation(round(float(linear**2), 12), round(float(ranks), 12))
