"""AETTA's two theorems as a simulation: when disagreement is the error (Lee et al. 2024, section 3)."""

from typing import NamedTuple

import numpy as np
from scipy.special import entr

Array = np.ndarray
CLASSES, CONCENTRATION = 10, 0.3  # of the Dirichlet distribution that each image's h~ is drawn from


class Measured(NamedTuple):
    """Of one sample of images, in [0,1]: error, PDD, what the theorem makes of PDD, what AETTA does."""

    error: float
    disagreement: float
    theorem: float
    aetta: float


def expectations(images: int, random: np.random.Generator, overconfident: float = 0.0) -> Array:
    """h~ [n,K]: how often a hypothesis predicts each class of each image.

    overconfident: h~ of class 0, of every image; 0: all classes are alike.
    """
    if not overconfident:
        return random.dirichlet(np.full(CLASSES, CONCENTRATION), images)
    others = random.dirichlet(np.full(CLASSES - 1, CONCENTRATION), images) * (1 - overconfident)
    return np.column_stack([np.full(images, overconfident), others])


def drawn(probabilities: Array, random: np.random.Generator) -> Array:
    """A class [n] from each row of probabilities [n,K]."""
    below = probabilities.cumsum(1) < random.random((len(probabilities), 1))
    return below.sum(1).clip(max=probabilities.shape[1] - 1)


def calibrated(images: int, passes: int, seed: int) -> Measured:
    """Theorem 3.1: labels occur as often as h~ says; the error is the disagreement."""
    random = np.random.default_rng(seed)
    h = expectations(images, random)
    return sampled(h, h, passes, random, 1.0, 0.0)


def overconfident(images: int, passes: int, seed: int, a: float, b: float) -> Measured:
    """Theorem 3.2: class 0 is right a times as often as h~ says, each other class b times as often.

    For the probabilities of every image's labels to be 1 in sum, h~ of class 0 must be (b - 1) / (b - a).
    """
    random = np.random.default_rng(seed)
    share = (b - 1) / (b - a)
    h = expectations(images, random, share)
    factors = np.array([a] + [b] * (CLASSES - 1))
    return sampled(h, h * factors, passes, random, b, (b - a) * share * (1 - share))


def sampled(
    h: Array, truth: Array, passes: int, random: np.random.Generator, b: float, c: float
) -> Measured:
    """Error and disagreement of one hypothesis with `passes` others, all independent (Def. 3.1)."""
    labels, own = drawn(truth, random), drawn(h, random)
    disagreement = float(np.mean([(drawn(h, random) != own).mean() for _ in range(passes)]))
    balance = float(entr(h.mean(0)).sum() / np.log(CLASSES))
    aetta = min(disagreement / balance**3, 1 - 1 / CLASSES)  # Eq. 13
    return Measured(float((own != labels).mean()), disagreement, b * disagreement - c, aetta)
