"""The score of a complete or incomplete run: accuracy, found targets, outcomes and costs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from .. import HoldfastError
from .data import Dataset, Sample
from .limits import Prices, tokens_of, usd_of
from .matching import identifiers, official_hit, official_match, strict_match
from .records import RETRIED, Key, Record, Repair
from .trajectory import KINDS, failure

if TYPE_CHECKING:  # pandas takes seconds, which the commands' help must not
    import pandas as pd

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

    JASA 1927. scipy's takes whole numbers only; here all repeats of a sample count as one trial.
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
    """The outcome of a record: its answer and search hits compared with the sample's titles.

    `outcome` is "correct", "wrong" or the status of a sample without an answer; `official` and `strict` say
    whether the answer is correct by CiteME's matcher and by the strict one; `found`, whether a search
    returned the target (by CiteME's rule), and `rank`, from 1, its rank in the first that did.
    `sent_back` counts unusable replies, and `repairs` the turns in which the next reply was usable.
    """
    official = strict = False
    if record.answered and (answer := record.selection):
        official = official_match(answer.title, sample.titles)
        ids = identifiers(sample.target_url)
        strict = strict_match(answer.title, sample.titles, answer.ids, ids)
    actions = record.actions
    searches = [action.hits for action in actions if action.hits is not None]
    ranks = [
        rank
        for hits in searches
        for rank, hit in enumerate(hits, start=1)
        if official_hit(hit.title, sample.titles)
    ]
    sent_back = [event.step for event in record.events if isinstance(event, Repair)]
    done = {action.step for action in actions if action.error != "unknown id"}
    is_wrong = record.answered and not official
    return {
        "sample": record.sample,
        "repeat": record.repeat,
        "year": sample.year,
        "outcome": ("correct" if official else "wrong") if record.answered else record.status,
        "official": official,
        "strict": strict,
        "searched": bool(searches),
        "found": bool(ranks),
        "rank": ranks[0] if ranks else None,
        "failure": failure(record, sample) if is_wrong and searches else None,
        "actions": [action.action for action in actions],
        "reads": [action.ok for action in actions if action.action == "read"],
        "sent_back": len(sent_back),
        "repairs": len(done & set(sent_back)),
        "calls": record.calls,
        "seconds": record.seconds,
    }


def judged(records: Records, dataset: Dataset) -> "pd.DataFrame":
    """A row per record, as from `judge`; provider errors and crashes, which are no answers, included.

    Raises `HoldfastError` if the records contain none of the samples.
    """
    import pandas as pd

    if not records:
        raise HoldfastError("The run has no samples yet. Rerun its command to continue it.")
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
    sample once, regardless of its number of repeats. `prices` are by default what the provider reported.
    Raises `HoldfastError` if the records contain none of the samples.
    """
    rows = judged(records, dataset)
    failed_to_run = rows.outcome.isin(RETRIED)
    done = rows[~failed_to_run]
    searched = done[done.searched]
    with_target = done[done.found]
    calls = done.calls.sum() or []
    calls_of_samples = done.calls[done.calls.map(bool)]
    usd = done.calls.map(lambda of_sample: usd_of(of_sample, prices)).dropna()
    tokens = calls_of_samples.map(lambda of_sample: sum(tokens_of(of_sample).values()))
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
        "found_in_search": rate(searched, "found"),
        "best_rank_median": _spread(with_target["rank"])["p50"],
        "accuracy_given_found": rate(with_target),
        "found_not_selected": int((~with_target.official).sum()),
        "outcomes": dict(Counter(done.outcome).most_common()),
        "provider_errors": dict(Counter(rows.outcome[failed_to_run])),
        "actions_by_step": _by_step(done.actions),
        "actions_by_step_correct": _by_step(done.actions[done.official]),
        "actions_mean": {
            "correct": _spread(done.actions[done.official].map(len))["mean"],
            "wrong": _spread(done.actions[~done.official].map(len))["mean"],
        },
        "reads": proportion(sum(done.reads.map(sum)), sum(done.reads.map(len))),
        "repairs": int(done.repairs.sum()),
        "sent_back": int(done.sent_back.sum()),
        "lm_calls": len(calls),
        "tokens": tokens_of(calls),
        "usd": usd_of(calls, prices),
        "usd_per_sample": _spread(usd),
        "tokens_per_sample": _spread(tokens),
        "lm_seconds": _spread([call.seconds for call in calls]),
        "seconds": _spread(done.seconds),
        "failures": {kind: int(causes.get(kind, 0)) for kind in KINDS},
        "by_year": {
            str(year): rate(of_year)
            for year, of_year in done.groupby(done.year.astype("string").fillna("unknown"))
        },
    }


def rate(rows: "pd.DataFrame", which: str = "official") -> Rate:
    """The rate of rows for which a column is true, with an interval by samples."""
    return proportion(int(rows[which].sum()), len(rows), rows["sample"].nunique())


def _by_step(actions: Iterable[list[str]]) -> list[dict[str, int]]:
    """The number of samples by action, for each step."""
    return [dict(Counter(a for a in step if a)) for step in zip_longest(*actions)]


def _spread(values: Iterable[float]) -> Spread:
    """Median, 90 % quantile and mean (costs are right-skewed); each is None without values."""
    import pandas as pd

    numbers = pd.Series(list(values), dtype=float)
    spread = {"p50": numbers.quantile(0.5), "p90": numbers.quantile(0.9), "mean": numbers.mean()}
    return {name: float(value) if pd.notna(value) else None for name, value in spread.items()}
