"""The few statistics of a paired benchmark of about a hundred yes/no answers."""

import math


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
