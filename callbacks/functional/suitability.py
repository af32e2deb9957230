"""Is the model still accurate enough? The suitability filter (Pouget et al. 2025), numpy.

A correctness regression turns the outputs for each image into the probability that its prediction is
right; a non-inferiority test compares their mean with that on labelled data from the source.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, xlogy

from .confidence import probabilities

Array = np.ndarray
SUITABLE, INCONCLUSIVE = "SUITABLE", "INCONCLUSIVE"
LEAST = 1e-12  # probability whose logarithm is taken


def signals(logits: Array) -> Array:
    """The outputs [n,9] that a regression sees of logits [n,C], chosen after Pouget et al. 2025.

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


class Correctness(NamedTuple):
    """A logistic regression: the probability in [0,1] that a prediction is right."""

    weights: tuple[float, ...]
    bias: float

    @classmethod
    def fit(cls, logits: Array, correct: Array) -> "Correctness":
        """From logits [n,C] and whether their predictions are right [n], some of which must not be.

        The signals are standardised for the fit, by L2-regularised maximum likelihood (scikit-learn's
        default).
        """
        from sklearn.linear_model import LogisticRegression  # here: it takes its time to import

        found = signals(logits)
        mean, deviation = found.mean(0), np.maximum(found.std(0), LEAST)
        model = LogisticRegression(max_iter=1000).fit((found - mean) / deviation, correct)
        weights = model.coef_[0] / deviation
        return cls(tuple(weights.tolist()), float(model.intercept_[0] - weights @ mean))

    def __call__(self, logits: Array) -> Array:
        """The probability [n] for each row of logits [n,C]."""
        return expit(signals(logits) @ np.array(self.weights) + self.bias)


class Sample(NamedTuple):
    """What a test needs of numbers: how many, their mean, and the sum of squared differences from it."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Array) -> "Sample":
        return cls(len(values), float(np.mean(values)), float(np.var(values) * len(values)))

    def __add__(self, other: "Sample") -> "Sample":  # type: ignore[override]
        """Of both together (Chan et al. 1983)."""
        count = self.n + other.n
        if not count:
            return self
        gap = other.mean - self.mean
        mean = self.mean + gap * other.n / count
        both = self.squares + other.squares
        return Sample(count, mean, both + gap**2 * self.n * other.n / count)


def non_inferiority(own: Sample, reference: Sample, margin: float) -> float:
    """The p-value of Welch's one-sided test of mean(own) <= mean(reference) - margin.

    A small one says that less than the margin is lost (Pouget et al. 2025). 1 with less than two
    numbers, or where none of them differ.
    """
    if min(own.n, reference.n) < 2 or not own.squares + reference.squares:
        return 1.0
    from scipy.stats import ttest_ind_from_stats  # here: it takes its time to import

    parts = [(s.mean, np.sqrt(s.squares / (s.n - 1)), s.n) for s in (own, reference)]
    (mean, *spread), theirs = parts
    shifted = (mean + margin, *spread)
    found = ttest_ind_from_stats(*shifted, *theirs, equal_var=False, alternative="greater")
    return float(found.pvalue)
