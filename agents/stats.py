"""Statistics for a paired benchmark of about a hundred yes/no answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Spread = dict[str, float | None]  # "p50", "p90" and "mean"


@dataclass(frozen=True)
class Rate:
    """`k` of `n` with a 95 % interval; `rate`, `low` and `high` are in [0, 1]."""

    k: int
    n: int
    rate: float | None  # None for n = 0
    low: float
    high: float

    def __str__(self) -> str:
        """As "k/n = p % [low, high]", or "none" for n = 0."""
        if self.rate is None:
            return "none"
        low, high = 100 * self.low, 100 * self.high
        return f"{self.k}/{self.n} = {100 * self.rate:.1f} % [{low:.1f}, {high:.1f}]"


def wilson(correct: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % score interval (JASA 1927); `correct` may be a fraction; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    p, share = correct / n, z * z / n
    centre, half = p + share / 2, math.sqrt(share * (p * (1 - p) + share / 4))
    return max((centre - half) / (1 + share), 0.0), min((centre + half) / (1 + share), 1.0)


def proportion(k: int, n: int, independent: int | None = None) -> Rate:
    """`k` of `n` as a rate with Wilson's interval for `independent` (default n) trials."""
    trials = n if independent is None else independent
    low, high = wilson(k / n * trials, trials) if n else wilson(0, 0)
    return Rate(k, n, k / n if n else None, low, high)


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p-value from the counts of pairs correct only in A or B (McNemar, 1947)."""
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def sign_flip(differences: Sequence[float], draws: int = 20_000) -> float:
    """The two-sided p-value of the mean of paired differences, by flipping their signs.

    Fisher, The Design of Experiments, 1935, section 21. Exact for up to 14 non-zero differences,
    otherwise over `draws` random flips with a fixed seed.
    """
    from scipy.stats import permutation_test

    moved = [d for d in differences if d]
    if len(moved) < 2:
        return 1.0
    found = permutation_test(
        (moved,), np.mean, permutation_type="samples", n_resamples=draws, random_state=0
    )
    return float(found.pvalue)


def interval_of_mean(values: Sequence[float], draws: int = 2_000) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean, with a fixed seed. Efron, 1979."""
    means = np.random.default_rng(0).choice(values, (draws, len(values))).mean(1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile by linear interpolation; None without values."""
    return float(np.quantile(values, q)) if len(values) else None


def distribution(values: Sequence[float]) -> Spread:
    """Median, 90 % quantile and mean (costs are right-skewed); each is None without values."""
    mean = sum(values) / len(values) if values else None
    return {"p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "mean": mean}


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for a single value)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
