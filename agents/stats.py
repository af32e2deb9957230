"""The few statistics of a paired benchmark of about a hundred yes/no answers."""

import math
import random


def wilson(correct: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval for a proportion; (0, 1) for n = 0. Wilson, JASA 1927."""
    if n == 0:
        return 0.0, 1.0
    p = correct / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p-value for pairs that only A, or only B, got right.

    McNemar, Psychometrika 1947, with the binomial distribution in place of chi-squared.
    """
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) / 2**n
    return min(1.0, 2 * tail)


def sign_flip(differences: list[float], draws: int = 20_000) -> float:
    """The two-sided p-value of a mean of paired differences, by flipping their signs.

    Fisher, The Design of Experiments, 1935, section 21: exact for up to 14 differences that are not 0,
    else over `draws` random flips, seeded.
    """
    moved = [d for d in differences if d]
    seen = abs(sum(moved)) - 1e-9
    if len(moved) <= 14:
        sums = [0.0]
        for d in moved:
            sums = [s + x for s in sums for x in (d, -d)]
        return sum(abs(s) >= seen for s in sums) / len(sums)
    chance = random.Random(0)
    extreme = sum(
        abs(sum(d if chance.random() < 0.5 else -d for d in moved)) >= seen for _ in range(draws)
    )
    return (extreme + 1) / (draws + 1)


def interval_of_mean(values: list[float], draws: int = 2_000) -> tuple[float, float]:
    """A 95 % percentile bootstrap interval of the mean, seeded. Efron, Annals of Statistics 1979."""
    chance = random.Random(0)
    means = [sum(chance.choices(values, k=len(values))) / len(values) for _ in range(draws)]
    low, high = (quantile(means, q) for q in (0.025, 0.975))
    assert low is not None
    assert high is not None
    return low, high


def quantile(values: list[float], q: float) -> float | None:
    """The q-quantile by linear interpolation, None of an empty list."""
    if not values:
        return None
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def mean_sd(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for a single value)."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
