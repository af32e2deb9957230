"""Intervals of shares; loads neither torch nor lightning."""

from scipy.special import betaincinv


def exact_interval(hits: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval of a share (1934); (0, 1) without trials.

    >>> tuple(round(end, 4) for end in exact_interval(19, 20))
    (0.7513, 0.9987)
    """
    tail = (1 - level) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high
