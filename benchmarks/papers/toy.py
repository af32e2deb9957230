"""The 2-D toy in which entropy minimisation is stable or collapses (thesis, appendix A.1)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .table import tidy

Array = np.ndarray
CONDITIONS = {"condition 1": (4.0, False), "condition 2": (25.0, False), "eq. A.4": (25.0, True)}
SIZES = {"embedded": (20_000, 20_000), "full": (300_000, 60_000)}  # points, steps
SEEDS = (0, 1, 2)
TRAINING = ((1000, 0.1), (1000, 0.01), (1000, 0.001))  # steps and learning rates
RATE = 0.01  # learning rate of the adaptation


class Snapshot(NamedTuple):
    """The model after a number of adaptation steps: accuracy in [0,1] and entropy in nats."""

    step: int
    accuracy: float
    entropy: float
    scale: float  # the norm of the batch norm's weights


def rotation(angle: float) -> Array:
    """The rotation matrix of Eq. A.7."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def data(
    points: int, variance: float, seed: int, literal: bool = False
) -> tuple[Array, Array, Array]:
    """Clean and corrupted points [n,2] and labels [n] in {0,1}.

    variance: variance of the noise along its major axis (condition 1: 4, condition 2: 25).
    literal: use the covariance as printed in eq. A.4, which rotates it opposite to the text.
    """
    random = np.random.default_rng(seed)
    labels = np.arange(points) % 2
    centred = random.standard_normal((points, 2)) * np.sqrt([1, 0.03])
    clean = (centred + np.outer(2 * labels - 1, [1, 0])) @ rotation(-np.pi / 4).T
    noise = random.standard_normal((points, 2)) * np.sqrt([0.25, variance])
    turn = rotation(-np.pi / 4).T if literal else rotation(-np.pi / 4)
    noise = noise @ (turn @ rotation(-np.pi / 6).T).T
    return clean, clean @ rotation(-np.pi / 9).T + noise, labels


def normalised(points: Array) -> Array:
    """The points after batch normalisation with epsilon 0 and before its scale; the expected mean is 0."""
    return (points - points.mean(0)) / points.std(0)


def trained(clean: Array, labels: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Scale [2] and linear weights [2] after training with binary cross-entropy on clean points."""
    x = normalised(clean)
    scale, weights = np.ones(2), random.uniform(-1, 1, 2) / np.sqrt(2)
    for steps, rate in TRAINING:
        for _ in range(steps):
            p = 1 / (1 + np.exp(-(x @ (scale * weights))))
            slope = x.T @ (p - labels) / len(x)
            scale, weights = scale - rate * slope * weights, weights - rate * slope * scale
    return scale, weights


def adapted(
    corrupted: Array, labels: Array, scale: Array, weights: Array, at: list[int]
) -> Iterator[Snapshot]:
    """Snapshots after the steps `at` of Tent on the scale, with all points in one batch."""
    x = normalised(corrupted)
    for step in range(at[-1] + 1):
        logits = x @ (scale * weights)
        p = 1 / (1 + np.exp(-logits))
        if step in at:
            entropy = np.logaddexp(0, logits) - p * logits
            right = (logits > 0) == labels
            yield Snapshot(step, right.mean(), entropy.mean(), float(np.linalg.norm(scale)))
        slope = -(p * (1 - p) * logits)  # derivative of the entropy by the logit
        scale = scale - RATE * weights * (x.T @ slope) / len(x)


def dynamics(points: int, steps: int) -> pd.DataFrame:
    """Accuracy, entropy and norm of the scale by adaptation step, in each condition."""
    at = sorted({0, *np.geomspace(1, steps, 24).astype(int).tolist()})
    rows: list[tuple[Any, ...]] = []
    for name, (variance, literal) in CONDITIONS.items():
        for seed in SEEDS:
            clean, corrupted, labels = data(points, variance, seed, literal)
            model = trained(clean, labels, np.random.default_rng([seed, 1]))
            for step, accuracy, entropy, size in adapted(corrupted, labels, *model, at):
                numbers = {"accuracy": 100 * accuracy, "entropy": 100 * entropy, "scale": size}
                rows += [(k, name, step, f"seed {seed}", own) for k, own in numbers.items()]
    unit = "accuracy, %; entropy, nats / 100; norm of the scale"
    return tidy(rows, unit=unit, axis="step of adaptation", log=True)
