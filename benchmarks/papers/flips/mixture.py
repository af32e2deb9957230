"""The toy of expectation maximisation whose points move, too (thesis, appendix B.1)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray


class Snapshot(NamedTuple):
    """After an iteration: where points [n,2] and centroids [K,2] are, and the share of points, in [0,1],
    that lie in the cluster of their class."""

    iteration: int
    points: Array
    centroids: Array
    accuracy: float


def mixture(
    classes: int, each: int, spread: float, random: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Points [n,2] of Gaussians with identity covariance, their classes [n], and the means [K,2].

    spread: standard deviation of the means around 0.
    """
    means = random.normal(0, spread, (classes, 2))
    labels = np.repeat(np.arange(classes), each)
    return means[labels] + random.standard_normal((len(labels), 2)), labels, means


def responsibilities(points: Array, centroids: Array) -> Array:
    """Probability [n,K] of each cluster, all of the same weight and identity covariance."""
    energy = -0.5 * ((points[:, None] - centroids[None]) ** 2).sum(-1)
    return np.exp(energy - logsumexp(energy, axis=1, keepdims=True))


def maximised(
    points: Array, labels: Array, centroids: Array, iterations: int, rate: float
) -> Iterator[Snapshot]:
    """Expectation maximisation of the centroids; after each iteration points climb the likelihood, too.

    rate: of the points' gradient steps; 0: the points stay, as in ordinary expectation maximisation.
    """
    for iteration in range(iterations + 1):
        shares = responsibilities(points, centroids)
        accuracy = float((shares.argmax(1) == labels).mean())
        yield Snapshot(iteration, points, centroids, accuracy)
        centroids = shares.T @ points / shares.sum(0)[:, None]
        shares = responsibilities(points, centroids)
        points = points + rate * (shares @ centroids - points)
