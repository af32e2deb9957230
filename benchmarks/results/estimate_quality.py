"""The quality of a run's estimates: R2, Spearman's rho, mean absolute error, coverage of the bands."""

from typing import NamedTuple

import numpy as np

from .runs import Run

Array = np.ndarray
WINDOW = 5  # batches averaged for R2 and rho


class Quality(NamedTuple):
    """Measures of how well estimates match the true accuracy; NaN if they cannot be computed."""

    r2: float  # squared correlation over windows
    rho: float  # Spearman's, over windows
    error: float  # mean |estimate - accuracy| over batches
    coverage: float  # share of batches whose accuracy lies within the band
    bands: int  # number of batches with a band
    width: float  # mean width of the bands


def quality(
    estimates: Array, truth: Array, low: Array, high: Array, window: int = WINDOW
) -> Quality:
    """Compare estimates [n] and bands from `low` [n] to `high` [n], NaN where missing, with `truth` [n]."""
    known = ~np.isnan(estimates) & ~np.isnan(truth)
    error = float(np.abs(estimates - truth)[known].mean()) if known.any() else np.nan
    banded = known & ~np.isnan(low)
    inside = (low <= truth) & (truth <= high)
    coverage, width = (
        float(v[banded].mean()) if banded.any() else np.nan for v in (inside, high - low)
    )
    own, true = means(estimates[known], window), means(truth[known], window)
    r2 = rho = np.nan
    if len(own) > 2 and np.ptp(own) and np.ptp(true):
        from scipy.stats import spearmanr  # deferred: slow import

        r2, rho = float(np.corrcoef(own, true)[0, 1] ** 2), float(spearmanr(own, true).statistic)
    return Quality(r2, rho, error, coverage, int(banded.sum()), width)


def means(values: Array, window: int) -> Array:
    """Means of consecutive windows, without the incomplete last one."""
    return values[: len(values) // window * window].reshape(-1, window).mean(1)


def of_runs(runs: list[Run], name: str, window: int) -> Quality:
    """The mean of each measure over runs."""
    columns = ("", "_low", "_high")
    each = [
        quality(own, run.column("accuracy"), low, high, window)
        for run in runs
        for own, low, high in [[run.column(name + end) for end in columns]]
    ]
    found = [np.array(v, dtype=float) for v in zip(*each, strict=True)]
    known = [v[~np.isnan(v)] for v in found]
    r2, rho, error, coverage, bands, width = (float(v.mean()) if len(v) else np.nan for v in known)
    return Quality(r2, rho, error, coverage, int(bands * len(each)), width)


def of_batches(run: Run) -> list[str]:
    """The estimators of the current batch's accuracy, which have an error per batch."""
    known = {key for row in run.rows for key in row}
    return [name for name in run.estimators if f"{name}_error" in known]
