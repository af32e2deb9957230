"""A paired comparison of two runs on the same samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import HoldfastError
from .data import Dataset
from .records import RETRIED, Key, Record
from .score import judged

Records = Mapping[Key, Record]


def compare(a: Records, b: Records, dataset: Dataset, *, strict: bool = False) -> dict[str, Any]:
    """The paired comparison over the samples that both runs finished.

    With one answer per sample in both runs: the exact McNemar test. With repeats: a sign-flip test of
    the difference of each sample's rates. The mean difference, in [-1, 1], has a 95 % bootstrap interval
    over samples. `a` and `b` are each run's mean and standard deviation over repeats.

    Raises:
        HoldfastError: if the runs share no finished sample.
    """
    which = "strict" if strict else "official"
    ours, theirs = (verdicts(records, dataset, which) for records in (a, b))
    shared = ours.index.intersection(theirs.index).sort_values()
    if not len(shared):
        raise HoldfastError("The two runs share no finished sample. Compare runs on the same data.")
    ours, theirs = (v.loc[shared].dropna(axis=1, how="all") for v in (ours, theirs))
    rate_a, rate_b = ours.mean(axis=1), theirs.mean(axis=1)
    differences = (rate_a - rate_b).tolist()
    right_a, right_b = rate_a == 1, rate_b == 1
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    single = list(ours) == list(theirs) == [0]
    return {
        "pairs": len(shared),
        "split": dataset.split,
        "matcher": which,
        "both": int((right_a & right_b).sum()),
        "only_a": only_a,
        "only_b": only_b,
        "neither": int((~right_a & ~right_b).sum()),
        "a": over_repeats(ours),
        "b": over_repeats(theirs),
        "difference": float(np.mean(differences)),
        "interval": interval_of_mean(differences),
        "test": "exact McNemar" if single else "sign flips over samples",
        "p": mcnemar(only_a, only_b) if single else sign_flip(differences),
    }


def verdicts(records: Records, dataset: Dataset, which: str) -> pd.DataFrame:
    """1 or 0 for each finished sample (row) and repeat (column) that is correct or not by a matcher."""
    rows = judged(records, dataset)
    done = rows[~rows.outcome.isin(RETRIED)].astype({which: float})
    return done.pivot(index="sample", columns="repeat", values=which)


def over_repeats(verdicts: pd.DataFrame) -> dict[str, Any]:
    """Mean and standard deviation of the accuracy over repeats."""
    rates = verdicts.mean()
    sd = float(rates.std()) if len(rates) > 1 else 0.0
    return {"mean": float(rates.mean()), "sd": sd, "repeats": len(rates)}


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
