"""Score a complete or incomplete run: accuracy, found targets, outcomes and costs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .. import HoldfastError
from .costs import Prices, tokens_of, usd_of
from .data import Dataset, Sample
from .matching import THRESHOLD, identifiers, official_hit, official_match, strict_match
from .results import Key
from .schema import RETRIED, Call, Record, Repair
from .stats import Rate, Spread, distribution, mean_sd, proportion, quantile
from .trajectory import KINDS, failure


@dataclass(frozen=True)
class Judged:
    """The outcome of a record, and whether its answer is correct."""

    record: Record
    sample: Sample
    outcome: str  # "correct", "wrong", or the status of a sample without an answer
    official: bool  # correct by CiteME's matcher
    strict: bool  # correct by the strict matcher
    found: tuple[int, int] | None  # search number and rank, from 1, at which the target came first
    searched: bool
    actions: list[str]
    reads: list[bool]  # whether each read gave a text
    calls: list[Call]
    sent_back: int  # number of unusable replies
    repairs: int  # number of turns in which a reply was sent back and the next one was usable


def judge(record: Record, sample: Sample, threshold: float = THRESHOLD) -> Judged:
    """Compare an answer, and the hits of the searches, with the sample's titles.

    Hits are compared by CiteME's rule; searches exclude the source and later papers.
    """
    official = strict = False
    if record.answered and (answer := record.selection):
        official = official_match(answer.title, sample.titles, threshold)
        ids = identifiers(sample.target_url)
        strict = strict_match(answer.title, sample.titles, answer.ids, ids)
    actions = record.actions
    searches = [action.hits for action in actions if action.hits is not None]
    places = (
        (number, rank)
        for number, hits in enumerate(searches, start=1)
        for rank, hit in enumerate(hits, start=1)
        if official_hit(hit.title, sample.titles, threshold)
    )
    sent_back = [event.step for event in record.events if isinstance(event, Repair)]
    usable = {action.step for action in actions if action.error != "unknown id"}
    return Judged(
        record,
        sample,
        outcome=("correct" if official else "wrong") if record.answered else record.status,
        official=official,
        strict=strict,
        found=next(places, None),
        searched=bool(searches),
        actions=[action.action for action in actions],
        reads=[action.ok for action in actions if action.action == "read"],
        calls=record.calls,
        sent_back=len(sent_back),
        repairs=len(usable & set(sent_back)),
    )


@dataclass(frozen=True)
class Scores:
    """The figures of a run; rates are in [0, 1], times in seconds, prices in US dollars.

    Provider errors and crashes count in `provider_errors` and `missing` but in no rate. Intervals count a
    sample once, regardless of its number of repeats.
    """

    n: int  # number of finished samples
    n_expected: int
    missing: int  # number of missing answers over all repeats
    split: str
    repeats: int
    accuracy: Rate  # by CiteME's matcher
    strict_accuracy: Rate
    per_repeat: dict[str, float] | None  # mean and sd of the accuracy; None for a single repeat
    found_in_search: Rate
    best_rank_median: float | None
    accuracy_given_found: Rate
    found_not_selected: int
    outcomes: dict[str, int]
    provider_errors: dict[str, int]
    actions_by_step: list[dict[str, int]]
    actions_by_step_correct: list[dict[str, int]]
    actions_mean: dict[str, float | None]
    reads: Rate
    repairs: int
    sent_back: int
    lm_calls: int
    tokens: dict[str, int]
    usd: float | None
    usd_per_sample: Spread
    tokens_per_sample: Spread
    lm_seconds: Spread
    seconds: Spread
    failures: dict[str, int]  # wrong answers by `trajectory.KINDS`
    by_year: dict[str, Rate]
    by_cutoff: dict[str, Any] | None  # the year, and the rates before and since
    accuracy_with_alternatives: Rate | None = None


def score(
    records: Mapping[Key, Record],
    dataset: Dataset,
    *,
    repeats: int = 1,
    threshold: float = THRESHOLD,
    usd_per_million: Prices | None = None,
    cutoff: int | None = None,
) -> Scores:
    """The figures of a run.

    Args:
        records: the records from `results.read`.
        dataset: the samples to score.
        repeats: answers per sample in a complete run.
        threshold: threshold of CiteME's matcher, in [0, 1].
        usd_per_million: prices of input and output tokens; by default what the provider reported.
        cutoff: a year that divides the samples by the year of their source (CiteME, table 8).

    Raises:
        HoldfastError: if the records contain none of the samples.
    """
    samples = {s.id: s for s in dataset.samples}
    rows = [judge(r, samples[key[0]], threshold) for key, r in records.items() if key[0] in samples]
    if not rows:
        raise HoldfastError("The run has no sample of this dataset and split. Pass its --data.")
    done = [row for row in rows if row.outcome not in RETRIED]
    searched = [row for row in done if row.searched]
    found = [row for row in searched if row.found]
    right = [row for row in done if row.official]
    wrong = [row for row in done if not row.official]
    failed = [row for row in searched if row.outcome == "wrong"]
    failures = Counter(failure(row.record, row.sample, threshold) for row in failed)
    reads = [worked for row in done for worked in row.reads]
    calls = [call for row in done for call in row.calls]
    prices = [usd_of(row.calls, usd_per_million) for row in done]
    return Scores(
        n=number_of_samples(done),
        n_expected=len(samples),
        missing=len(samples) * repeats - len(done),
        split=dataset.split,
        repeats=repeats,
        accuracy=rate_of(done),
        strict_accuracy=rate_of(done, "strict"),
        per_repeat=spread_of_repeats(done),
        found_in_search=proportion(len(found), len(searched), number_of_samples(searched)),
        best_rank_median=quantile([float(row.found[1]) for row in found if row.found], 0.5),
        accuracy_given_found=rate_of(found),
        found_not_selected=sum(not row.official for row in found),
        outcomes=dict(Counter(row.outcome for row in done).most_common()),
        provider_errors=dict(Counter(row.outcome for row in rows if row.outcome in RETRIED)),
        actions_by_step=actions_by_step(done),
        actions_by_step_correct=actions_by_step(right),
        actions_mean={
            name: distribution([len(row.actions) for row in some])["mean"]
            for name, some in (("correct", right), ("wrong", wrong))
        },
        reads=proportion(sum(reads), len(reads)),
        repairs=sum(row.repairs for row in done),
        sent_back=sum(row.sent_back for row in done),
        lm_calls=len(calls),
        tokens=tokens_of(calls),
        usd=usd_of(calls, usd_per_million),
        usd_per_sample=distribution([usd for usd in prices if usd is not None]),
        tokens_per_sample=distribution(
            [sum(tokens_of(row.calls).values()) for row in done if row.calls]
        ),
        lm_seconds=distribution([call.seconds for call in calls]),
        seconds=distribution([row.record.seconds for row in done]),
        failures={kind: failures[kind] for kind in KINDS},
        by_year=rates_by_year(done),
        by_cutoff=rates_by_cutoff(done, cutoff) if cutoff else None,
    )


def rate_of(rows: Sequence[Judged], which: str = "official") -> Rate:
    """The rate of correct answers by a matcher, "official" or "strict"."""
    return proportion(sum(getattr(row, which) for row in rows), len(rows), number_of_samples(rows))


def number_of_samples(rows: Iterable[Judged]) -> int:
    return len({row.sample.id for row in rows})


def spread_of_repeats(rows: Iterable[Judged]) -> dict[str, float] | None:
    """Mean and standard deviation of the accuracy over repeats; None for a single one."""
    repeats: dict[int, list[bool]] = {}
    for row in rows:
        repeats.setdefault(row.record.repeat, []).append(row.official)
    if len(repeats) < 2:
        return None
    mean, sd = mean_sd([sum(values) / len(values) for values in repeats.values()])
    return {"mean": mean, "sd": sd}


def actions_by_step(rows: Iterable[Judged]) -> list[dict[str, int]]:
    """The number of samples by action, for each step."""
    taken = zip_longest(*(row.actions for row in rows))
    return [dict(Counter(action for action in step if action)) for step in taken]


def rates_by_year(rows: Iterable[Judged]) -> dict[str, Rate]:
    """Accuracy by the year of the source, "unknown" for a source without a year."""
    years: dict[str, list[Judged]] = {}
    for row in rows:
        years.setdefault(str(row.sample.year or "unknown"), []).append(row)
    return {year: rate_of(years[year]) for year in sorted(years)}


def rates_by_cutoff(rows: Iterable[Judged], year: int) -> dict[str, Any]:
    """Accuracy of samples whose source is from before `year`, and from that year or later."""
    dated = [(row, row.sample.year) for row in rows if row.sample.year is not None]
    before, since = [r for r, y in dated if y < year], [r for r, y in dated if y >= year]
    return {"year": year, "before": rate_of(before), "since": rate_of(since)}
