"""Simulate AETTA's two theorems on when disagreement equals the error (Lee et al. 2024, section 3)."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from ...results.run_statistics import paired
from ..primitives import Part
from ..table import Table

Array = np.ndarray
CLASSES, CONCENTRATION = 10, 0.3  # of the Dirichlet distribution of each image's h~

SEEDS = tuple(range(5))
IMAGES = {"embedded": 20_000, "full": 200_000}
PASSES = 10
A, FACTORS = 0.2, (1.5, 2.0, 4.0)  # factors of the over-confident class and of the others


class Measured(NamedTuple):
    """Error, PDD, the theorem's value from PDD, and AETTA's estimate on one sample, in [0,1]."""

    error: float
    disagreement: float
    theorem: float
    aetta: float


def expectations(images: int, random: np.random.Generator, overconfident: float = 0.0) -> Array:
    """h~ [n,K]: the frequency with which hypotheses predict each class of each image.

    overconfident: h~ of class 0 for every image; 0: all classes are equivalent.
    """
    if not overconfident:
        return random.dirichlet(np.full(CLASSES, CONCENTRATION), images)
    others = random.dirichlet(np.full(CLASSES - 1, CONCENTRATION), images) * (1 - overconfident)
    return np.column_stack([np.full(images, overconfident), others])


def drawn(probabilities: Array, random: np.random.Generator) -> Array:
    """Sample a class [n] from each row of probabilities [n,K]."""
    below = probabilities.cumsum(1) < random.random((len(probabilities), 1))
    return below.sum(1).clip(max=probabilities.shape[1] - 1)


def calibrated(images: int, passes: int, seed: int) -> Measured:
    """Theorem 3.1: labels occur with the frequencies h~, so the error equals the disagreement."""
    random = np.random.default_rng(seed)
    h = expectations(images, random)
    return sampled(h, h, passes, random, 1.0, 0.0)


def overconfident(images: int, passes: int, seed: int, a: float, b: float) -> Measured:
    """Theorem 3.2: class 0 is correct with a times the frequency h~, the other classes with b times.

    The label probabilities of each image sum to 1 only if h~ of class 0 is (b - 1) / (b - a).
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


def table(scale: str, cells: list[Any]) -> Table:
    """Error, disagreement, the theorem's value and AETTA's estimate, by degree of over-confidence."""
    found = Table(unit="%")
    for x, b in {"calibrated": None, **{f"b = {b:g}": b for b in FACTORS}}.items():
        for seed in SEEDS:
            if b is None:
                measured = calibrated(IMAGES[scale], PASSES, seed)
            else:
                measured = overconfident(IMAGES[scale], PASSES, seed, A, b)
            for name, number in measured._asdict().items():
                found.add("", name, x, f"seed {seed}", 100 * number)
    return found


def nearer(table: Table) -> list[Part]:
    """Claim: with an over-confident class, AETTA's estimate is closer to the error than disagreement."""
    parts = []
    for x in table.xs[1:]:
        error = table.values("", "error", x)
        plain, weighted = (
            {run: abs(value - error[run]) for run, value in table.values("", curve, x).items()}
            for curve in ("disagreement", "aetta")
        )
        parts.append(Part(str(x), paired(plain, weighted), 0))
    return parts
