"""Accuracy from the agreement of several models: pure functions of predictions [models,n].

A prediction is a class number or, as [models,n,2], the first and last token of an answer; a measure of
`spans` then defines how similar two answers are.
"""

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ... import HoldfastError

Array = np.ndarray
Measure = Callable[[Array, Array], Array]  # similarity in [0,1] of predictions, one number for each


def exact(one: Array, other: Array) -> Array:
    """1 where two predictions are the same class, 0 elsewhere."""
    return np.asarray(one) == np.asarray(other)


def accuracies(predictions: Array, labels: Array, measure: Measure = exact) -> Array:
    """Mean similarity of each model's predictions to the labels, [m]."""
    return np.array([measure(one, labels).mean() for one in np.asarray(predictions)])


def agreements(predictions: Array, measure: Measure = exact) -> Array:
    """Mean similarity of the predictions of each pair of models, [m,m]; for classes, the share of equal
    ones."""
    predictions = np.asarray(predictions)
    shares = np.eye(len(predictions))
    for i, j in combinations(range(len(predictions)), 2):
        shares[i, j] = shares[j, i] = measure(predictions[i], predictions[j]).mean()
    return shares


def mean_with_others(shares: Array) -> Array:
    """The mean of each row of [m,m] without the diagonal."""
    return (shares.sum(1) - shares.diagonal()) / (len(shares) - 1)


def naive_agreement(predictions: Array) -> Array:
    """GDE (Jiang et al. 2022) for each model [m]: its mean agreement with the others."""
    return mean_with_others(agreements(predictions))


def probit(share: Array, samples: int) -> Array:
    """Phi^-1 of shares, clipped to [1 / 2n, 1 - 1 / 2n] (n: samples)."""
    return ndtri(np.clip(share, 1 / (2 * samples), 1 - 1 / (2 * samples)))


class Line(NamedTuple):
    """y = slope x + bias, and the share of the variance of y that it explains."""

    slope: float
    bias: float
    r2: float


def line(x: Array, y: Array) -> Line:
    """The least-squares line.

    Raises:
        HoldfastError: if all x are equal, which determines no line.
    """
    if np.ptp(x) < 1e-12:
        raise HoldfastError(
            "All models have the same accuracy and agreement in distribution, so there is no "
            "line. Agreement-on-the-line needs models that differ."
        )
    slope, bias = np.polyfit(x, y, 1)
    residual = y - slope * x - bias
    variance = y.var()
    r2 = 1 - residual.var() / variance if variance > 0 else 1.0
    return Line(float(slope), float(bias), float(r2))


class ALine(NamedTuple):
    """Accuracies estimated for each model from agreement-on-the-line (Baek et al. 2022)."""

    aline_s: Array  # [m]
    aline_d: Array  # [m]
    agreement_line: Line  # trust the estimates only if its r2 exceeds 0.95
    pairs: int  # to which the line was fitted


def aline(
    id_classes: Array,
    id_labels: Array,
    ood_classes: Array,
    most_agreement: float | None = None,
    measure: Measure = exact,
) -> ALine:
    """ALine-S and ALine-D from predictions [m,n] in distribution (with labels) and out of distribution.

    See `aline_of_shares`; `most_agreement=0.95` leaves out pairs, as the official notebook does.
    """
    return aline_of_shares(
        accuracies(id_classes, id_labels, measure),
        agreements(id_classes, measure),
        agreements(ood_classes, measure),
        (np.shape(id_classes)[1], np.shape(ood_classes)[1]),
        most_agreement,
    )


def aline_of_shares(
    accuracy: Array,
    inside: Array,
    outside: Array,
    samples: tuple[int, int],
    most_agreement: float | None = None,
) -> ALine:
    """ALine-S and ALine-D from in-distribution accuracy [m] and agreement [m,m] in and out of distribution.

    The line probit(agreement OOD) = a probit(agreement ID) + b is fitted to all pairs (Saxena et al.
    2024, eq. 2), or to those that agree in distribution on less than `most_agreement`. ALine-S applies
    this line to accuracy: Phi(a probit(accuracy ID) + b). (The official notebook returns it before Phi;
    the last line of Saxena et al. omits the probit.) ALine-D solves, by least squares over the pairs,
    (w_i + w_j) / 2 = probit(agr OOD) + a ((probit acc_i + probit acc_j) / 2 - probit(agr ID)) for
    w = probit(accuracy OOD). `samples`: numbers of samples in and out of distribution.

    Raises HoldfastError if there are fewer than three models, or too few pairs.
    """
    models = len(accuracy)
    if models < 3:
        raise HoldfastError(f"Agreement-on-the-line needs at least 3 models, not {models}.")
    first, second = pairs(models)
    if most_agreement is not None:
        kept = inside[first, second] < most_agreement
        if kept.sum() < models:
            raise HoldfastError(
                f"Only {kept.sum()} pairs of {models} models agree on less than "
                f"{most_agreement:.0%} of the samples. Agreement-on-the-line needs models that "
                "differ."
            )
        first, second = first[kept], second[kept]
    x, y = probit(inside[first, second], samples[0]), probit(outside[first, second], samples[1])
    fitted = line(x, y)
    known = probit(accuracy, samples[0])
    rows = np.zeros((len(x), models))
    rows[np.arange(len(x)), first] = rows[np.arange(len(x)), second] = 0.5
    right = y + fitted.slope * ((known[first] + known[second]) / 2 - x)
    solution = np.linalg.lstsq(rows, right, rcond=None)[0]
    return ALine(ndtr(fitted.slope * known + fitted.bias), ndtr(solution), fitted, len(x))


def pairs(models: int) -> tuple[Array, Array]:
    """The indices of the first and the second model of each pair of different models."""
    return np.triu_indices(models, 1)


def mean_absolute_error(estimate: Array, truth: Array) -> float:
    """MAE, in [0,1]."""
    return float(np.abs(np.asarray(estimate) - truth).mean())


def mean_percentage_error(estimate: Array, truth: Array) -> float:
    """MAPE as a share: mean |estimate - truth| / truth; a truth of 0 counts as NaN.

    >>> mean_percentage_error(np.array([0.5, 0.3]), np.array([0.4, 0.4]))
    0.25
    """
    truth = np.where(np.asarray(truth) == 0, np.nan, truth)
    return float((np.abs(estimate - truth) / truth).mean())
