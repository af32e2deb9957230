"""Accuracy from the agreement of several models: pure functions of predicted classes [models,n]."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ... import HoldfastError

Array = np.ndarray


def agreements(classes: Array) -> Array:
    """Share of equal predictions of each pair of models, [m,m]."""
    return np.stack([(classes == one).mean(1) for one in np.asarray(classes)])


def naive_agreement(classes: Array) -> Array:
    """GDE (Jiang et al. 2022) for each model [m]: its mean agreement with the others."""
    shares = agreements(classes)
    return (shares.sum(1) - shares.diagonal()) / (len(shares) - 1)


def probit(share: Array, samples: int) -> Array:
    """Phi^-1 of shares, which are kept 1 / 2n away from 0 and 1 (n: samples)."""
    return ndtri(np.clip(share, 1 / (2 * samples), 1 - 1 / (2 * samples)))


class Line(NamedTuple):
    """y = slope x + bias, and the share of the variance of y that it explains."""

    slope: float
    bias: float
    r2: float


def line(x: Array, y: Array) -> Line:
    """The least-squares line."""
    slope, bias = np.polyfit(x, y, 1)
    residual = y - slope * x - bias
    return Line(float(slope), float(bias), float(1 - residual.var() / y.var()))


class ALine(NamedTuple):
    """Accuracies estimated for each model from agreement-on-the-line (Baek et al. 2022)."""

    aline_s: Array  # [m]
    aline_d: Array  # [m]
    agreement_line: Line  # trust the estimates only if its r2 exceeds 0.95
    pairs: int  # that it was fitted to


def aline(
    id_classes: Array, id_labels: Array, ood_classes: Array, most_agreement: float = 0.95
) -> ALine:
    """ALine-S and ALine-D from predictions [m,n] in distribution, with labels, and out of it.

    The line probit(agreement OOD) = a probit(agreement ID) + b is fitted to all pairs that agree in
    distribution on less than `most_agreement`, as in the official notebook. ALine-S puts the accuracy
    in its place: Phi(a probit(accuracy ID) + b). (The notebook returns it before Phi; the foundation
    model paper's last line forgets the probit.) ALine-D solves, by least squares over the pairs,
    (w_i + w_j) / 2 = probit(agr OOD) + a ((probit acc_i + probit acc_j) / 2 - probit(agr ID)) for
    w = probit(accuracy OOD).
    """
    models = len(id_classes)
    if models < 3:
        raise HoldfastError(f"agreement-on-the-line needs at least 3 models, not {models}.")
    id_count, ood_count = np.shape(id_classes)[1], np.shape(ood_classes)[1]
    inside, outside = agreements(id_classes), agreements(ood_classes)
    kept = [pair for pair in combinations(range(models), 2) if inside[pair] < most_agreement]
    if len(kept) < models:
        raise HoldfastError(
            f"only {len(kept)} pairs of {models} models agree on less than {most_agreement:.0%} of the "
            "samples: agreement-on-the-line needs models that differ."
        )
    first, second = np.array(kept).T
    x, y = probit(inside[first, second], id_count), probit(outside[first, second], ood_count)
    fitted = line(x, y)
    accuracy = probit((np.asarray(id_classes) == id_labels).mean(1), id_count)
    rows = np.zeros((len(kept), models))
    rows[np.arange(len(kept)), first] = rows[np.arange(len(kept)), second] = 0.5
    right = y + fitted.slope * ((accuracy[first] + accuracy[second]) / 2 - x)
    solution = np.linalg.lstsq(rows, right, rcond=None)[0]
    return ALine(ndtr(fitted.slope * accuracy + fitted.bias), ndtr(solution), fitted, len(kept))
