"""The toy example of expectation maximisation with moving points (thesis, appendix B.1)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ....callbacks.functional.clusters import silhouette
from ..table import Table

Array = np.ndarray
SEEDS = tuple(range(16))
CLASSES, EACH, SPREAD, SHIFT = 5, 80, 5.0, 3.0  # not stated in the paper
ITERATIONS, RATE = 100, 0.05
START = {"smart": (0.0, RATE), "shifted": (SHIFT, RATE), "points at rest": (SHIFT, 0.0)}
AT = (0, 1, 2, 5, 10, 20, 50, 100)


class Snapshot(NamedTuple):
    """Points [n,2] and centroids [K,2] after an iteration, and the share in [0,1] of points in the
    cluster of their class."""

    iteration: int
    points: Array
    centroids: Array
    accuracy: float


def mixture(
    classes: int, each: int, spread: float, random: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Points [n,2] of Gaussians with identity covariance, their classes [n], and the means [K,2].

    spread: the standard deviation of the means around 0.
    """
    means = random.normal(0, spread, (classes, 2))
    labels = np.repeat(np.arange(classes), each)
    return means[labels] + random.standard_normal((len(labels), 2)), labels, means


def responsibilities(points: Array, centroids: Array) -> Array:
    """The probability [n,K] of each cluster, with equal weights and identity covariance."""
    energy = -0.5 * ((points[:, None] - centroids[None]) ** 2).sum(-1)
    return np.exp(energy - logsumexp(energy, axis=1, keepdims=True))


def maximised(
    points: Array, labels: Array, centroids: Array, iterations: int, rate: float
) -> Iterator[Snapshot]:
    """Expectation maximisation in which the points also ascend the likelihood after each iteration.

    rate: the rate of the points' gradient steps; 0: the points are fixed, as usual.
    """
    for iteration in range(iterations + 1):
        shares = responsibilities(points, centroids)
        accuracy = float((shares.argmax(1) == labels).mean())
        yield Snapshot(iteration, points, centroids, accuracy)
        centroids = shares.T @ points / shares.sum(0)[:, None]
        shares = responsibilities(points, centroids)
        points = points + rate * (shares @ centroids - points)


def table(scale: str, cells: list[Any]) -> Table:
    """Figure B.1: accuracy and silhouette of the clusters by iteration, from each start."""
    result = Table(unit="accuracy, %; silhouette x 100", axis="iteration", log=True)
    for seed in SEEDS:
        points, labels, means = mixture(CLASSES, EACH, SPREAD, np.random.default_rng(seed))
        for name, (shift, rate) in START.items():
            for now in maximised(points, labels, means + shift, ITERATIONS, rate):
                if now.iteration in AT:
                    found = responsibilities(now.points, now.centroids).argmax(1)
                    apart = 100 * silhouette(now.points, found)
                    result.add("accuracy", name, now.iteration, f"seed {seed}", 100 * now.accuracy)
                    result.add("silhouette", name, now.iteration, f"seed {seed}", apart)
    return result
