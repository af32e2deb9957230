"""Accuracy from the agreement of several models: pure functions of predictions [models,n].

A prediction is a class number or, as [models,n,2], the first and last token of an answer; a measure of
`spans` then defines how similar two answers are.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import linregress

Array = np.ndarray
Measure = Callable[[Array, Array], Array]  # similarity in [0,1] of predictions, one number for each


def exact(first: Array, second: Array) -> Array:
    """1 where two predictions are the same class, 0 elsewhere."""
    return np.asarray(first) == np.asarray(second)


def accuracies(predictions: Array, labels: Array, measure: Measure = exact) -> Array:
    """Mean similarity of each model's predictions to the labels, [m]."""
    return np.array([measure(answers, labels).mean() for answers in np.asarray(predictions)])


def agreements(predictions: Array, measure: Measure = exact) -> Array:
    """Mean similarity of each pair of models' predictions, [m,m]; of classes the share of equal ones."""
    predictions = np.asarray(predictions)
    shares = np.eye(len(predictions))
    for i, j in combinations(range(len(predictions)), 2):
        shares[i, j] = shares[j, i] = measure(predictions[i], predictions[j]).mean()
    return shares


def mean_with_others(shares: Array) -> Array:
    """The mean of each row of [m,m] without the diagonal: of agreements, GDE (Jiang et al. 2022).

    >>> mean_with_others(agreements(np.array([[0, 1], [0, 1], [0, 0]]))).tolist()
    [0.75, 0.75, 0.5]
    """
    return (shares.sum(1) - shares.diagonal()) / (len(shares) - 1)


def pairs(models: int) -> tuple[Array, Array]:
    """The indices of the first and the second model of each pair of different models."""
    return np.triu_indices(models, 1)


def probit(share: Array, samples: int) -> Array:
    """Phi^-1 of shares, clipped to [1 / 2n, 1 - 1 / 2n] (n: samples)."""
    return ndtri(np.clip(share, 1 / (2 * samples), 1 - 1 / (2 * samples)))


class Line(NamedTuple):
    """y = slope x + bias, and the share of the variance of y that it explains."""

    slope: float
    bias: float
    r2: float

    def __str__(self) -> str:
        return f"{self.slope:.2f} x {self.bias:+.2f}, R² {self.r2:.3f}"


def line(x: Array, y: Array) -> Line | None:
    """The least-squares line; None if all x are equal, which determines no line."""
    if np.ptp(x) < 1e-12:
        return None
    fitted = linregress(x, y)
    r2 = fitted.rvalue**2 if np.ptp(y) else 1.0
    return Line(float(fitted.slope), float(fitted.intercept), float(r2))


class ALine(NamedTuple):
    """Accuracies estimated for each model from agreement-on-the-line (Baek et al. 2022)."""

    aline_s: Array  # [m]
    aline_d: Array  # [m]
    agreement_line: Line  # trust the estimates only if its r2 exceeds 0.95


def aline_of_shares(
    accuracy: Array, inside: Array, outside: Array, samples: tuple[int, int]
) -> ALine | None:
    """ALine-S and ALine-D from in-distribution accuracy [m] and agreement [m,m] in and out of distribution.

    The line probit(agreement OOD) = a probit(agreement ID) + b is fitted to all pairs (Saxena et al.
    2024, eq. 2). ALine-S applies this line to accuracy: Phi(a probit(accuracy ID) + b). (The official
    notebook returns it before Phi; the last line of Saxena et al. omits the probit.) ALine-D solves, by
    least squares over the pairs, (w_i + w_j) / 2 = probit(agr OOD) + a ((probit acc_i + probit acc_j) / 2 -
    probit(agr ID)) for w = probit(accuracy OOD). `samples`: numbers of samples in and out of distribution.

    None with fewer than three models, or if they are too similar for a line.
    """
    models = len(accuracy)
    first, second = pairs(models)
    x, y = probit(inside[first, second], samples[0]), probit(outside[first, second], samples[1])
    fitted = line(x, y)
    if models < 3 or fitted is None:
        return None
    known = probit(accuracy, samples[0])
    rows = np.zeros((len(x), models))
    rows[np.arange(len(x)), first] = rows[np.arange(len(x)), second] = 0.5
    right = y + fitted.slope * ((known[first] + known[second]) / 2 - x)
    solution = np.linalg.lstsq(rows, right, rcond=None)[0]
    return ALine(ndtr(fitted.slope * known + fitted.bias), ndtr(solution), fitted)


def projection_norm(reference: Iterable[Array], pseudo: Iterable[Array]) -> float:
    """||theta_ref - theta_ood||_2 over all parameters, in the same order; 0 or more (Yu et al. 2022).

    Both start from the same parameters: theta_ref was trained on labelled data from the training
    distribution, theta_ood for the same number of steps on out-of-distribution data with the
    model's predictions as labels. A score of the shift, not an estimate of the accuracy.

    >>> projection_norm([np.array([1.0, 2.0]), np.zeros(1)], [np.array([1.0, 5.0]), np.full(1, 4.0)])
    5.0
    """
    both = zip(reference, pseudo, strict=True)
    return float(np.sqrt(sum(np.square(np.asarray(a) - b).sum() for a, b in both)))
