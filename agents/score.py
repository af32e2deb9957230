"""Score a complete or incomplete run, and compare two: accuracy, found targets, outcomes and costs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from .. import HoldfastError
from .data import Dataset, Sample
from .limits import Prices, tokens_of, usd_of
from .matching import identifiers, official_hit, official_match, strict_match
from .records import RETRIED, Key, Record, Repair
from .trajectory import KINDS, failure

Records = Mapping[Key, Record]
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


def proportion(k: int, n: int, independent: int | None = None) -> Rate:
    """`k` of `n` as a rate with Wilson's 95 % interval for `independent` (default n) trials.

    JASA 1927. Unlike scipy's, which is for whole numbers, as repeats of a sample count as one trial.
    """
    if not n:
        return Rate(k, n, None, 0.0, 1.0)
    trials, p = n if independent is None else independent, k / n
    share = 1.959964**2 / trials
    centre, half = p + share / 2, math.sqrt(share * (p * (1 - p) + share / 4))
    low, high = max((centre - half) / (1 + share), 0.0), min((centre + half) / (1 + share), 1.0)
    return Rate(k, n, p, low, high)


# ---- one record ----


def judge(record: Record, sample: Sample) -> dict[str, Any]:
    """What became of a record, with its answer and search hits compared with the sample's titles.

    `outcome` is "correct", "wrong" or the status of a sample without an answer; `official` and `strict` say
    whether the answer is correct by CiteME's matcher and by the strict one; `rank`, from 1, is the target's
    (by CiteME's rule) in the first search that returned it, and None if none did.
    `sent_back` counts unusable replies, and `repairs` the turns in which the next reply was usable.
    """
    official = strict = False
    if record.answered and (answer := record.selection):
        official = official_match(answer.title, sample.titles)
        ids = identifiers(sample.target_url)
        strict = strict_match(answer.title, sample.titles, answer.ids, ids)
    actions = record.actions
    searches = [action.hits for action in actions if action.hits is not None]
    ranks = (
        rank
        for hits in searches
        for rank, hit in enumerate(hits, start=1)
        if official_hit(hit.title, sample.titles)
    )
    sent_back = [event.step for event in record.events if isinstance(event, Repair)]
    usable = {action.step for action in actions if action.error != "unknown id"}
    is_wrong = record.answered and not official
    return {
        "sample": record.sample,
        "repeat": record.repeat,
        "year": sample.year,
        "outcome": ("correct" if official else "wrong") if record.answered else record.status,
        "official": official,
        "strict": strict,
        "searched": bool(searches),
        "rank": next(ranks, None),
        "failure": failure(record, sample) if is_wrong and searches else None,
        "actions": [action.action for action in actions],
        "reads": [action.ok for action in actions if action.action == "read"],
        "sent_back": len(sent_back),
        "repairs": len(usable & set(sent_back)),
        "calls": record.calls,
        "seconds": record.seconds,
    }


def judged(records: Records, dataset: Dataset) -> pd.DataFrame:
    """A row per record, as from `judge`; provider errors and crashes, which are no answers, included.

    Raises:
        HoldfastError: if the records contain none of the samples.
    """
    if not records:
        raise HoldfastError(
            "The run has no samples yet. Run its command again, which continues it."
        )
    samples = {s.id: s for s in dataset.samples}
    rows = [judge(r, samples[r.sample]) for r in records.values() if r.sample in samples]
    if not rows:
        raise HoldfastError("The run has no sample of this dataset and split. Pass its --data.")
    return pd.DataFrame(rows).astype({"rank": "Float64", "year": "Int64"})


# ---- one run ----


def score(
    records: Records, dataset: Dataset, *, repeats: int = 1, prices: Prices | None = None
) -> dict[str, Any]:
    """The figures of a run; rates are in [0, 1], times in seconds, prices in US dollars.

    Provider errors and crashes count in `provider_errors` and `missing` but in no rate. Intervals count a
    sample once, regardless of its number of repeats.

    Args:
        records: the records from `records.read`.
        dataset: the samples to score.
        repeats: answers per sample in a complete run.
        prices: US dollars per million input and output tokens; by default what the provider reported.

    Raises:
        HoldfastError: if the records contain none of the samples.
    """
    rows = judged(records, dataset)
    failed_to_run = rows.outcome.isin(RETRIED)
    done = rows[~failed_to_run]
    right, searched = done[done.official], done[done.searched]
    is_found = searched["rank"].notna()
    found = searched[is_found]
    calls = done.calls.sum() or []
    called = done.calls[done.calls.map(bool)]
    usd = done.calls.map(lambda some: usd_of(some, prices)).dropna()
    means = done.groupby("repeat").official.mean()
    causes = done.failure.value_counts()
    return {
        "n": done["sample"].nunique(),
        "n_expected": len(dataset.samples),
        "missing": len(dataset.samples) * repeats - len(done),
        "split": dataset.split,
        "repeats": repeats,
        "accuracy": rate(done),
        "strict_accuracy": rate(done, "strict"),
        "per_repeat": {"mean": means.mean(), "sd": means.std()} if len(means) > 1 else None,
        "found_in_search": rate(searched.assign(found=is_found), "found"),
        "best_rank_median": distribution(found["rank"])["p50"],
        "accuracy_given_found": rate(found),
        "found_not_selected": int((~found.official).sum()),
        "outcomes": dict(Counter(done.outcome).most_common()),
        "provider_errors": dict(Counter(rows.outcome[failed_to_run])),
        "actions_by_step": by_step(done.actions),
        "actions_by_step_correct": by_step(right.actions),
        "actions_mean": {
            "correct": distribution(right.actions.map(len))["mean"],
            "wrong": distribution(done.actions[~done.official].map(len))["mean"],
        },
        "reads": proportion(sum(done.reads.map(sum)), sum(done.reads.map(len))),
        "repairs": int(done.repairs.sum()),
        "sent_back": int(done.sent_back.sum()),
        "lm_calls": len(calls),
        "tokens": tokens_of(calls),
        "usd": usd_of(calls, prices),
        "usd_per_sample": distribution(usd),
        "tokens_per_sample": distribution(called.map(lambda some: sum(tokens_of(some).values()))),
        "lm_seconds": distribution([call.seconds for call in calls]),
        "seconds": distribution(done.seconds),
        "failures": {kind: int(causes.get(kind, 0)) for kind in KINDS},
        "by_year": {
            str(year) if pd.notna(year) else "unknown": rate(some)
            for year, some in done.groupby("year", dropna=False)
        },
    }


def rate(rows: pd.DataFrame, which: str = "official") -> Rate:
    """The rate of rows for which a column is true, with an interval by samples."""
    return proportion(int(rows[which].sum()), len(rows), rows["sample"].nunique())


def by_step(actions: Sequence[list[str]]) -> list[dict[str, int]]:
    """The number of samples by action, for each step."""
    return [dict(Counter(a for a in step if a)) for step in zip_longest(*actions)]


def distribution(values: Sequence[float]) -> Spread:
    """Median, 90 % quantile and mean (costs are right-skewed); each is None without values."""
    if not len(values):
        return {"p50": None, "p90": None, "mean": None}
    numbers = np.asarray(values, float)
    p50, p90 = np.quantile(numbers, [0.5, 0.9])
    return {"p50": float(p50), "p90": float(p90), "mean": float(numbers.mean())}


# ---- two runs ----


def compare(a: Records, b: Records, dataset: Dataset) -> dict[str, Any]:
    """The paired comparison over the samples that both runs finished.

    With one answer per sample in both runs: the exact McNemar test. With repeats: a sign-flip test of
    the difference of each sample's rates. The mean difference, in [-1, 1], has a 95 % bootstrap interval
    over samples (percentiles, Efron 1979). `a` and `b` are each run's mean and standard deviation over
    repeats.

    Raises:
        HoldfastError: if the runs share no finished sample.
    """
    ours, theirs = (verdicts(records, dataset) for records in (a, b))
    shared = ours.index.intersection(theirs.index).sort_values()
    if not len(shared):
        raise HoldfastError("The two runs share no finished sample. Compare runs on the same data.")
    ours, theirs = (v.loc[shared].dropna(axis=1, how="all") for v in (ours, theirs))
    rate_a, rate_b = ours.mean(axis=1), theirs.mean(axis=1)
    differences = (rate_a - rate_b).to_numpy()
    draws = np.random.default_rng(0).choice(differences, (2_000, len(shared))).mean(1)
    right_a, right_b = rate_a == 1, rate_b == 1
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    single = list(ours) == list(theirs) == [0]
    return {
        "pairs": len(shared),
        "split": dataset.split,
        "both": int((right_a & right_b).sum()),
        "only_a": only_a,
        "only_b": only_b,
        "neither": int((~right_a & ~right_b).sum()),
        "a": over_repeats(ours),
        "b": over_repeats(theirs),
        "difference": float(differences.mean()),
        "interval": np.quantile(draws, [0.025, 0.975]).tolist(),
        "test": "exact McNemar" if single else "sign flips over samples",
        "p": mcnemar(only_a, only_b) if single else sign_flip(differences),
    }


def verdicts(records: Records, dataset: Dataset) -> pd.DataFrame:
    """1 or 0 for each finished sample (row) and repeat (column) that is correct or not."""
    rows = judged(records, dataset)
    done = rows[~rows.outcome.isin(RETRIED)].astype({"official": float})
    return done.pivot(index="sample", columns="repeat", values="official")


def over_repeats(verdicts: pd.DataFrame) -> dict[str, Any]:
    """Mean and standard deviation of the accuracy over repeats."""
    rates = verdicts.mean()
    sd = float(rates.std()) if len(rates) > 1 else 0.0
    return {"mean": float(rates.mean()), "sd": sd, "repeats": len(rates)}


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p-value from the counts of pairs correct only in A or B (McNemar, 1947)."""
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of the mean of paired differences, by flipping their signs.

    Fisher, The Design of Experiments, 1935, section 21. Exact for up to 14 non-zero differences,
    otherwise over 20,000 random flips with a fixed seed.
    """
    from scipy.stats import permutation_test

    moved = [d for d in differences if d]
    if len(moved) < 2:
        return 1.0
    flips = {"permutation_type": "samples", "n_resamples": 20_000, "random_state": 0}
    return float(permutation_test((moved,), np.mean, **flips).pvalue)
