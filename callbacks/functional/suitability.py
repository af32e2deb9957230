"""Is the model still accurate enough? The suitability filter (Pouget et al. 2025), numpy.

A correctness regression turns the outputs for each image into the probability that its prediction is
right; a non-inferiority test compares their mean with that on labelled data from the source.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, xlogy

from .confidence import probabilities

Array = np.ndarray
SUITABLE, INCONCLUSIVE = "SUITABLE", "INCONCLUSIVE"
LEAST = 1e-12  # probability whose logarithm is taken


def signals(logits: Array) -> Array:
    """The regression's features [n,9] of logits [n,C], chosen after Pouget et al. 2025.

    Largest probability and its logarithm, margin to the second one, entropy, -logsumexp, largest logit,
    the logits' standard deviation, margin of the two largest logits, and log of the sum of the others'
    probabilities.
    """
    z = np.asarray(logits, dtype=np.float64)
    probs, top = probabilities(z), np.sort(z, axis=1)[:, ::-1]
    ranked = np.sort(probs, axis=1)[:, ::-1]
    columns = (
        *(ranked[:, 0], np.log(ranked[:, 0]), ranked[:, 0] - ranked[:, 1]),
        *(-xlogy(probs, probs).sum(1), -logsumexp(z, axis=1), top[:, 0], z.std(1)),
        *(top[:, 0] - top[:, 1], np.log(np.maximum(1 - ranked[:, 0], LEAST))),
    )
    return np.stack(columns, axis=1)


class Sample(NamedTuple):
    """Sufficient statistics of probabilities: number, mean, sum of squared differences from it.

    slope: derivative of the mean with respect to the regression's weights and bias [10].
    """

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    slope: tuple[float, ...] = (0.0,) * 10

    def __add__(self, other: "Sample") -> "Sample":  # type: ignore[override]
        """The statistics of both samples together (Chan et al. 1983)."""
        count = self.n + other.n
        if not count:
            return self
        share = other.n / count
        gap = other.mean - self.mean
        squares = self.squares + other.squares + gap**2 * self.n * share
        slope = (1 - share) * np.array(self.slope) + share * np.array(other.slope)
        return Sample(count, self.mean + gap * share, squares, tuple(slope.tolist()))


class Correctness(NamedTuple):
    """A logistic regression: the probability in [0,1] that a prediction is right.

    covariance: covariance of the estimated weights and bias [10,10] (inverse of the observed information).
    """

    weights: tuple[float, ...]
    bias: float
    covariance: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, logits: Array, correct: Array) -> "Correctness":
        """Fit to logits [n,C] and whether their predictions are right [n]; both kinds must occur.

        The signals are standardised for the fit, by L2-regularised maximum likelihood (scikit-learn's
        default).
        """
        from sklearn.linear_model import LogisticRegression  # here: its import is slow

        found = signals(logits)
        mean, deviation = found.mean(0), np.maximum(found.std(0), LEAST)
        scaled = (found - mean) / deviation
        model = LogisticRegression(max_iter=1000).fit(scaled, correct)
        weights = model.coef_[0] / deviation
        design = np.c_[scaled, np.ones(len(scaled))]
        right = model.predict_proba(scaled)[:, 1]
        information = (design * (right * (1 - right))[:, None]).T @ design
        information += np.diag([1.0] * len(mean) + [LEAST])  # scikit-learn's penalty
        # From the scaled signals' weights and bias to those of the signals.
        back = np.diag([*(1 / deviation), 1.0])
        back[-1, :-1] = -mean / deviation
        covariance = back @ np.linalg.inv(information) @ back.T
        bias = float(model.intercept_[0] - weights @ mean)
        return cls(tuple(weights.tolist()), bias, tuple(map(tuple, covariance.tolist())))

    def __call__(self, logits: Array) -> Array:
        """The probability [n] for each row of logits [n,C]."""
        return self.of_signals(signals(logits))

    def of_signals(self, found: Array) -> Array:
        """The probability [n] for each row of `signals` [n,9]."""
        return expit(found @ np.array(self.weights) + self.bias)

    def sample(self, logits: Array) -> Sample:
        """The statistics of the probabilities for logits [n,C]."""
        found = signals(logits)
        right = self.of_signals(found)
        design = np.c_[found, np.ones(len(right))]
        slope = (design * (right * (1 - right))[:, None]).mean(0)
        squares = float(np.var(right) * len(right))
        return Sample(len(right), float(np.mean(right)), squares, tuple(slope.tolist()))


def non_inferiority(own: Sample, reference: Sample, margin: float, covariance: Any = None) -> float:
    """The p-value of a one-sided test of mean(own) <= mean(reference) - margin.

    A small p-value is evidence that less than the margin is lost (Pouget et al. 2025). It is
    Welch's test with the variance of the regression added (delta method); the paper ignores this
    variance, and so exceeds the level. 1 for fewer than two numbers, or if all are equal.
    """
    if min(own.n, reference.n) < 2 or not own.squares + reference.squares:
        return 1.0
    from scipy.special import stdtr

    parts = np.array([s.squares / (s.n - 1) / s.n for s in (own, reference)])
    freedom = parts.sum() ** 2 / (parts**2 / [own.n - 1, reference.n - 1]).sum()
    apart = np.array(own.slope) - np.array(reference.slope)
    fitted = 0.0 if covariance is None else apart @ np.array(covariance) @ apart
    distance = (own.mean - reference.mean + margin) / np.sqrt(parts.sum() + fitted)
    return float(stdtr(freedom, -distance))
