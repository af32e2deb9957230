"""Rates over the judged rows of a run, with intervals that count a sample once."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .stats import mean_sd, wilson

Row = dict[str, Any]


def proportion(k: int, n: int, independent: int | None = None) -> dict[str, Any]:
    """`k` of `n` as a rate with Wilson's interval for `independent` (default n) trials."""
    trials = n if independent is None else independent
    low, high = wilson(k / n * trials, trials) if n else wilson(0, 0)
    return {"k": k, "n": n, "rate": k / n if n else None, "low": low, "high": high}


def rate_of(rows: list[Row], which: str) -> dict[str, Any]:
    return proportion(sum(r[which] for r in rows), len(rows), number_of_samples(rows))


def number_of_samples(rows: list[Row]) -> int:
    return len({r["sample"] for r in rows})


def spread_of_repeats(rows: list[Row]) -> dict[str, Any] | None:
    """Mean and standard deviation of the accuracy over repeats, None of a single one."""
    repeats = {r["repeat"] for r in rows}
    if len(repeats) < 2:
        return None
    of_repeat = [[r["official"] for r in rows if r["repeat"] == repeat] for repeat in repeats]
    mean, sd = mean_sd([sum(values) / len(values) for values in of_repeat])
    return {"mean": mean, "sd": sd}


def actions_by_step(rows: Iterable[Row]) -> list[dict[str, int]]:
    steps: list[Counter[str]] = []
    for row in rows:
        steps += [Counter() for _ in range(len(row["actions"]) - len(steps))]
        for counter, action in zip(steps, row["actions"], strict=False):
            counter[action] += 1
    return [dict(counter) for counter in steps]


def rates_by_year(rows: list[Row]) -> dict[str, Any]:
    years = {"unknown" if r["year"] is None else str(r["year"]) for r in rows}
    return {
        year: rate_of([r for r in rows if str(r["year"] or "unknown") == year], "official")
        for year in sorted(years)
    }


def rates_by_cutoff(rows: list[Row], year: int) -> dict[str, Any]:
    """Accuracy of samples whose source is from before `year`, and from it on (CiteME, table 8)."""
    dated = [r for r in rows if r["year"] is not None]
    return {
        "year": year,
        "before": rate_of([r for r in dated if r["year"] < year], "official"),
        "since": rate_of([r for r in dated if r["year"] >= year], "official"),
    }
