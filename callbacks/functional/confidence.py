"""Accuracy of a data set from confidences: pure functions of logits [n,C] and labels [n], numpy."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax, xlogy

Array = np.ndarray


def probabilities(logits: Array, temperature: float = 1.0) -> Array:
    """softmax(z / T) of each row, in float64."""
    return softmax(np.asarray(logits, dtype=np.float64) / temperature, axis=1)


def fit_temperature(logits: Array, labels: Array) -> float:
    """The T that minimises the cross-entropy of softmax(z / T), within [0.01, 100].

    The exact minimiser; the official implementations stop their LBFGS up to half a percent from it.
    """
    logits = np.asarray(logits, dtype=np.float64)
    rows = np.arange(len(labels))

    def cross_entropy(log_temperature: float) -> float:
        return -log_softmax(logits / np.exp(log_temperature), axis=1)[rows, labels].mean()

    bounds = (np.log(0.01), np.log(100))
    found = minimize_scalar(cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


def average_confidence(probs: Array) -> float:
    """AC: the mean of the largest probabilities."""
    return float(probs.max(1).mean())


def difference_of_confidences(probs: Array, val_probs: Array, val_labels: Array) -> float:
    """DoC (Guillory et al. 2021): the accuracy on validation data, less the loss of confidence."""
    accuracy = float((val_probs.argmax(1) == val_labels).mean())
    return accuracy + average_confidence(probs) - average_confidence(val_probs)


def max_confidence(probs: Array) -> Array:
    """ATC's score MC: the largest probability, [n]."""
    return probs.max(1)


def negative_entropy(probs: Array) -> Array:
    """ATC's score NE: sum_c p_c ln p_c, [n]."""
    return xlogy(probs, probs).sum(1)


def threshold(scores: Array, correct: Array) -> float:
    """The score below which as many validation samples lie as the model gets wrong, itself excluded."""
    errors = int((~np.asarray(correct, dtype=bool)).sum())
    return float(np.sort(scores)[errors - 1]) if errors else -np.inf


def thresholded_confidence(scores: Array, val_scores: Array, val_correct: Array) -> float:
    """ATC (Garg et al. 2022): the share of scores that reach the validation threshold."""
    return float((scores >= threshold(val_scores, val_correct)).mean())
