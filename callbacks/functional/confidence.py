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
    minimum = minimize_scalar(
        cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    return float(np.exp(minimum.x))


def fit_isotonic(confidence: Array, correct: Array) -> list[list[float]]:
    """Knots of the non-decreasing map from confidence [n] to correctness [n] with least squared error.

    Two lists, of confidences and of probabilities, for `numpy.interp`.

    >>> fit_isotonic(np.array([0.2, 0.4, 0.9]), np.array([True, False, True]))
    [[0.2, 0.4, 0.9], [0.5, 0.5, 1.0]]
    """
    from sklearn.isotonic import IsotonicRegression  # here: its import is slow

    fitted = IsotonicRegression().fit(np.asarray(confidence, dtype=np.float64), correct)
    return [fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist()]


def max_confidence(probs: Array) -> Array:
    """The largest probability of each sample, [n,C] -> [n]; ATC's score MC."""
    return probs.max(1)


def negative_entropy(probs: Array) -> Array:
    """sum_c p_c ln p_c of each sample, [n,C] -> [n]; ATC's score NE."""
    return xlogy(probs, probs).sum(1)


def threshold(scores: Array, correct: Array) -> float:
    """ATC's threshold t: the share of scores [n] up to t is the model's error; -inf without errors.

    >>> threshold(np.array([0.9, 0.4, 0.6]), np.array([True, False, True]))
    0.4
    """
    errors = int((~np.asarray(correct, dtype=bool)).sum())
    return float(np.sort(scores)[errors - 1]) if errors else -np.inf


def thresholded_confidence(scores: Array, val_scores: Array, val_correct: Array) -> float:
    """ATC (Garg et al. 2022): the share of scores [n] that reach the threshold of validation data [m]."""
    return float((scores >= threshold(val_scores, val_correct)).mean())


def score_estimates(
    scores: dict[str, Array], val_scores: dict[str, Array], val_correct: Array
) -> dict[str, float]:
    """AC (Hendrycks and Gimpel 2017), DoC (Guillory et al. 2021), ATC-MC and ATC-NE from scores of each
    sample, [n] and, on validation data, [m].

    "confidence" is the probability of the prediction, "entropy" its negative entropy; a name that ends
    in "_T" refers to the calibrated model, as does the estimate of that name. Saxena et al. 2024 define
    DoC-feat as this difference, although the name suggests penultimate features.

    >>> score_estimates({"confidence": np.array([0.9, 0.7])}, {"confidence": np.array([1.0])}, np.ones(1))
    {'AC': 0.8, 'DoC': 0.8, 'ATC-MC': 1.0}
    """
    estimates: dict[str, float] = {}
    for name in (name for name in scores if name.startswith("confidence")):
        confidence, val = scores[name], val_scores[name]
        end = name.removeprefix("confidence")
        estimates[f"AC{end}"] = float(confidence.mean())
        estimates[f"DoC{end}"] = float(val_correct.mean() + confidence.mean() - val.mean())
        estimates[f"ATC-MC{end}"] = thresholded_confidence(confidence, val, val_correct)
        entropy = f"entropy{end}"
        if entropy in scores:
            estimates[f"ATC-NE{end}"] = thresholded_confidence(
                scores[entropy], val_scores[entropy], val_correct
            )
    return estimates
