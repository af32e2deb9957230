"""Judging a finished or unfinished run: accuracy, what was found, how it ended, what it cost."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .. import HoldfastError
from .costs import Prices, tokens_of, usd_of
from .data import Dataset, Sample
from .episode import RETRIED
from .matching import THRESHOLD, identifiers, official_hit, official_match, strict_match
from .results import Key
from .stats import distribution, mean_sd, proportion, quantile
from .trajectory import failures

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
    searches = [e["hits"] for e in actions if "hits" in e]
    places = (
        (number, rank)
        for number, hits in enumerate(searches, start=1)
        for rank, hit in enumerate(hits, start=1)
        if official_hit(hit["title"], sample.titles, threshold)
    )
    return {
        "sample": sample.id,
        "repeat": record["repeat"],
        "year": sample.year,
        "outcome": ("correct" if official else "wrong") if answered else record["status"],
        "official": bool(official),
        "strict": bool(strict),
        "found": next(places, None),
        "searched": bool(searches),
        "actions": [e["action"] for e in actions],
        "reads": [e["ok"] for e in actions if e["action"] == "read"],
        "calls": [e for e in record["events"] if e["kind"] == "lm"],
        "sent_back": sum(e["kind"] == "repair" for e in record["events"]),
        "repairs": repaired(record["events"]),
        "seconds": record["seconds"],
    }


def repaired(events: Iterable[Record]) -> int:
    """How many turns had a reply sent back and then one that could be used."""
    usable = {e["step"] for e in events if e["kind"] == "action" and e.get("error") != "unknown id"}
    return len({e["step"] for e in events if e["kind"] == "repair"} & usable)


def score(
    records: Mapping[Key, Record],
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
    rows = [judge(r, samples[key[0]], threshold) for key, r in records.items() if key[0] in samples]
    if not rows:
        raise HoldfastError("The run holds no sample of this data set and split. Pass its --data.")
    done = [r for r in rows if r["outcome"] not in RETRIED]
    searched = [r for r in done if r["searched"]]
    found = [r for r in searched if r["found"]]
    right, wrong = ([r for r in done if r["official"] is value] for value in (True, False))
    reads = [worked for r in done for worked in r["reads"]]
    failed = (r for r in searched if r["outcome"] == "wrong")
    return {
        "n": number_of_samples(done),
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
        "provider_errors": dict(Counter(r["outcome"] for r in rows if r["outcome"] in RETRIED)),
        "actions_by_step": actions_by_step(done),
        "actions_by_step_correct": actions_by_step(right),
        "actions_mean": {
            name: distribution([len(r["actions"]) for r in some])["mean"]
            for name, some in (("correct", right), ("wrong", wrong))
        },
        "reads": proportion(sum(reads), len(reads)),
        "repairs": sum(r["repairs"] for r in done),
        "sent_back": sum(r["sent_back"] for r in done),
        **usage(done, usd_per_million),
        "failures": failures(
            [(records[r["sample"], r["repeat"]], samples[r["sample"]]) for r in failed], threshold
        ),
        "by_year": rates_by_year(done),
        "by_cutoff": rates_by_cutoff(done, cutoff) if cutoff else None,
    }


def rate_of(rows: list[Record], which: str) -> dict[str, Any]:
    return proportion(sum(r[which] for r in rows), len(rows), number_of_samples(rows))


def number_of_samples(rows: list[Record]) -> int:
    return len({r["sample"] for r in rows})


def spread_of_repeats(rows: list[Record]) -> dict[str, Any] | None:
    """Mean and standard deviation of the accuracy over repeats, None of a single one."""
    repeats: dict[int, list[bool]] = {}
    for row in rows:
        repeats.setdefault(row["repeat"], []).append(row["official"])
    mean_and_sd = mean_sd([sum(values) / len(values) for values in repeats.values()] or [0.0])
    return dict(zip(("mean", "sd"), mean_and_sd, strict=True)) if len(repeats) > 1 else None


def actions_by_step(rows: Iterable[Record]) -> list[dict[str, int]]:
    steps: list[dict[str, int]] = []
    for row in rows:
        steps += [{} for _ in range(len(row["actions"]) - len(steps))]
        for counts, action in zip(steps, row["actions"], strict=False):
            counts[action] = counts.get(action, 0) + 1
    return steps


def usage(rows: list[Record], prices: Prices | None) -> dict[str, Any]:
    """Calls, tokens and dollars of a run, and their distribution over its samples."""
    calls = [call for row in rows for call in row["calls"]]
    usd = [usd_of(row["calls"], prices) for row in rows]
    tokens = [sum(tokens_of(row["calls"]).values()) for row in rows if row["calls"]]
    return {
        "lm_calls": len(calls),
        "tokens": tokens_of(calls),
        "usd": usd_of(calls, prices),
        "usd_per_sample": distribution([value for value in usd if value is not None]),
        "tokens_per_sample": distribution(tokens),
        "lm_seconds": distribution([c["seconds"] for c in calls]),
        "seconds": distribution([row["seconds"] for row in rows]),
    }


def rates_by_year(rows: list[Record]) -> dict[str, Any]:
    years: dict[str, list[Record]] = {}
    for row in rows:
        years.setdefault(str(row["year"] or "unknown"), []).append(row)
    return {year: rate_of(years[year], "official") for year in sorted(years)}


def rates_by_cutoff(rows: list[Record], year: int) -> dict[str, Any]:
    """Accuracy of samples whose source is from before `year`, and from it on (CiteME, table 8)."""
    dated = [r for r in rows if r["year"] is not None]
    parts = {"before": [r for r in dated if r["year"] < year]}
    parts["since"] = [r for r in dated if r["year"] >= year]
    return {"year": year, **{name: rate_of(part, "official") for name, part in parts.items()}}
