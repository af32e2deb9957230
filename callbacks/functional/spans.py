"""Extractive question answering: pure functions of answers [n,2], first and last token, numpy.

Source: Saxena et al. 2024, appendix 7.1.2.
"""

import numpy as np
from scipy.special import log_softmax, softmax

from .confidence import fit_temperature

Array = np.ndarray


def exact_match(first: Array, second: Array) -> Array:
    """EM: True where both ends are the same, [n,2] x [n,2] -> [n]."""
    return (np.asarray(first) == np.asarray(second)).all(-1)


def token_f1(first: Array, second: Array) -> Array:
    """F1 of the tokens that two answers share, [n,2] x [n,2] -> [n] in [0,1].

    F1 is symmetric, so it also measures the agreement of two answers. An answer that ends before it
    begins has no tokens; its F1 is 1 only with another such answer.

    >>> token_f1(np.array([[2, 5], [3, 1]]), np.array([[4, 7], [6, 4]])).tolist()
    [0.5, 1.0]
    """
    first, second = np.asarray(first), np.asarray(second)
    lengths = [np.maximum(answer[..., 1] - answer[..., 0] + 1, 0) for answer in (first, second)]
    begin = np.maximum(first[..., 0], second[..., 0])
    end = np.minimum(first[..., 1], second[..., 1])
    shared, total = np.maximum(end - begin + 1, 0), lengths[0] + lengths[1]
    shared = np.where((lengths[0] == 0) | (lengths[1] == 0), 0, shared)
    return np.where(total == 0, 1.0, 2 * shared / np.maximum(total, 1))


MEASURES = {"EM": exact_match, "F1": token_f1}


def fit_span_temperatures(starts: Array, ends: Array, labels: Array) -> tuple[float, float]:
    """T_s and T_e that minimise the cross-entropy of softmax(s / T_s) x softmax(e / T_e).

    Logits [n,N] twice, labels [n,2]. The cross-entropy of the outer product is the sum of those of start
    and end, so each is fitted separately (z / T for z exp(T) of the paper: the same optimum).
    """
    return fit_temperature(starts, labels[:, 0]), fit_temperature(ends, labels[:, 1])


def span_probability(
    starts: Array, ends: Array, answers: Array, temperatures: tuple[float, float] = (1.0, 1.0)
) -> Array:
    """Confidence softmax(s)_i softmax(e)_j of the answers (i,j), [n]."""
    rows = np.arange(len(answers))
    start, end = (
        softmax(np.asarray(z, float) / t, 1)
        for z, t in zip((starts, ends), temperatures, strict=True)
    )
    return start[rows, answers[:, 0]] * end[rows, answers[:, 1]]


def span_negative_entropy(
    starts: Array, ends: Array, temperatures: tuple[float, float] = (1.0, 1.0)
) -> Array:
    """sum p ln p over all N x N pairs, [n]: the sum of those of start and end, which are independent."""
    total = np.zeros(len(starts))
    for logits, temperature in zip((starts, ends), temperatures, strict=True):
        logs = log_softmax(np.asarray(logits, float) / temperature, 1)
        logs = np.where(np.isfinite(logs), logs, 0)  # a masked token has probability 0
        total += (np.exp(logs) * logs).sum(1)
    return total


def best_answers(starts: Array, ends: Array) -> Array:
    """The most probable start and end of each, [n,N] twice -> [n,2] (among EM's N x N classes)."""
    return np.stack([np.argmax(starts, 1), np.argmax(ends, 1)], 1)
