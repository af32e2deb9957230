"""Numbers for each seed, and what tables show of them."""

from collections.abc import Iterable

import numpy as np

Seeds = dict[int | None, float]  # a number for each seed


def mean_and_deviation(values: Seeds) -> str:
    """Mean and standard deviation over seeds, in percentage points; "-" if there are none."""
    points = 100 * np.array([v for v in values.values() if not np.isnan(v)])
    if not len(points):
        return "-"
    return f"{points.mean():.2f}" + (f" ± {points.std(ddof=1):.2f}" if len(points) > 1 else "")


def average(several: Iterable[Seeds]) -> Seeds:
    """Their mean, for the seeds that all of them have."""
    several = list(several)
    common = set.intersection(*map(set, several)) if several else set()
    return {seed: float(np.mean([values[seed] for values in several])) for seed in common}
