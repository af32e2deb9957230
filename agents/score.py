"""Judging a finished or unfinished run: accuracy, what was found, how it ended, what it cost."""

from collections import Counter
from typing import Any

from .. import HoldfastError
from .costs import Prices, distribution, usage
from .data import Dataset, Sample
from .episode import RETRIED
from .failures import failures
from .matching import THRESHOLD, identifiers, official_hit, official_match, strict_match
from .rates import (
    actions_by_step,
    number_of_samples,
    proportion,
    rate_of,
    rates_by_cutoff,
    rates_by_year,
    spread_of_repeats,
)
from .results import Key
from .stats import quantile

Record = dict[str, Any]


def judge(record: Record, sample: Sample, threshold: float = THRESHOLD) -> Record:
    """One row: outcome, official and strict correctness, where the target was found.

    `found` is (search number, rank), both from 1, of the target's first appearance by the official
    rule; the source and later papers never appear, as the searches leave them out.
    """
    selection = record["selection"]
    answered = record["status"] in ("selected", "guessed")
    official = answered and official_match(selection["title"], sample.titles, threshold)
    strict = answered and strict_match(
        selection["title"], sample.titles, selection["ids"], identifiers(sample.target_url)
    )
    actions = [e for e in record["events"] if e["kind"] == "action"]
    searches = [e for e in actions if "hits" in e]
    return {
        "sample": sample.id,
        "repeat": record["repeat"],
        "year": sample.year,
        "outcome": ("correct" if official else "wrong") if answered else record["status"],
        "official": bool(official),
        "strict": bool(strict),
        "found": first_appearance(searches, sample, threshold),
        "searched": bool(searches),
        "actions": [e["action"] for e in actions],
        "reads": [e["ok"] for e in actions if e["action"] == "read"],
        "calls": [e for e in record["events"] if e["kind"] == "lm"],
        "sent_back": sum(e["kind"] == "repair" for e in record["events"]),
        "repairs": repaired(record["events"]),
        "seconds": record["seconds"],
    }


def score(
    records: dict[Key, Record],
    dataset: Dataset,
    *,
    repeats: int = 1,
    threshold: float = THRESHOLD,
    usd_per_million: Prices | None = None,
    cutoff: int | None = None,
) -> dict[str, Any]:
    """The figures of a run; provider errors and crashes stand apart from every rate.

    `usd_per_million` prices input and output tokens where the provider reported no cost.
    Accuracies and rates are in [0, 1], times in seconds; intervals count a sample once, however
    often it was repeated. `repeats` is how many answers per sample a finished run has; `cutoff` a
    year that divides the samples by that of their source (CiteME, table 8).
    """
    samples = {s.id: s for s in dataset.samples}
    rows = [
        judge(record, samples[sample], threshold)
        for (sample, _), record in records.items()
        if sample in samples
    ]
    if not rows:
        raise HoldfastError("the run holds no sample of this data set and split: give its --data.")
    unanswered = Counter(r["outcome"] for r in rows if r["outcome"] in RETRIED)
    done = [r for r in rows if r["outcome"] not in RETRIED]
    searched = [r for r in done if r["searched"]]
    found = [r for r in searched if r["found"]]
    right = [r for r in done if r["official"]]
    return {
        "n": len({r["sample"] for r in done}),
        "n_expected": len(samples),
        "missing": len(samples) * repeats - len(done),
        "split": dataset.split,
        "repeats": repeats,
        "accuracy": rate_of(done, "official"),
        "strict_accuracy": rate_of(done, "strict"),
        "per_repeat": spread_of_repeats(done),
        "found_in_search": proportion(len(found), len(searched), number_of_samples(searched)),
        "best_rank_median": quantile([float(r["found"][1]) for r in found], 0.5),
        "accuracy_given_found": rate_of(found, "official"),
        "found_not_selected": sum(not r["official"] for r in found),
        "outcomes": dict(Counter(r["outcome"] for r in done).most_common()),
        "provider_errors": dict(unanswered),
        "actions_by_step": actions_by_step(done),
        "actions_by_step_correct": actions_by_step(right),
        "actions_mean": {
            "correct": distribution([float(len(r["actions"])) for r in right])["mean"],
            "wrong": distribution([float(len(r["actions"])) for r in done if not r["official"]])[
                "mean"
            ],
        },
        "reads": proportion(sum(sum(r["reads"]) for r in done), sum(len(r["reads"]) for r in done)),
        "repairs": sum(r["repairs"] for r in done),
        "sent_back": sum(r["sent_back"] for r in done),
        **usage(done, usd_per_million),
        "failures": failures(
            (
                (records[r["sample"], r["repeat"]], samples[r["sample"]])
                for r in searched
                if r["outcome"] == "wrong"
            ),
            threshold,
        ),
        "by_year": rates_by_year(done),
        "by_cutoff": rates_by_cutoff(done, cutoff) if cutoff else None,
    }


def repaired(events: list[Record]) -> int:
    """How many turns had a reply sent back and then one that could be used."""
    usable = {e["step"] for e in events if e["kind"] == "action" and e.get("error") != "unknown id"}
    return len({e["step"] for e in events if e["kind"] == "repair"} & usable)


def first_appearance(
    searches: list[Record], sample: Sample, threshold: float
) -> tuple[int, int] | None:
    for number, event in enumerate(searches, start=1):
        for rank, hit in enumerate(event["hits"], start=1):
            if official_hit(hit["title"], sample.titles, threshold):
                return number, rank
    return None
