"""What a sample costs: calls, tokens, dollars, seconds; sums, means and quantiles."""

from typing import Any

from .stats import quantile

Row = dict[str, Any]
Prices = tuple[float, float]  # US dollars per million input and output tokens


def tokens_of(calls: list[dict[str, Any]]) -> dict[str, int]:
    """Input and output tokens over calls; each call pays for its whole prompt."""
    return {
        side: sum(call["usage"].get(f"{side}_tokens") or 0 for call in calls)
        for side in ("input", "output")
    }


def usd_of(calls: list[dict[str, Any]], prices: Prices | None) -> float | None:
    """The price of calls, by `prices` or else as the provider reported it; None if unknown."""
    if prices:
        return sum(t * p for t, p in zip(tokens_of(calls).values(), prices, strict=True)) / 1e6
    reported = [call["usd"] for call in calls if call.get("usd") is not None]
    return sum(reported) if reported else None


def distribution(values: list[float]) -> dict[str, float | None]:
    """Mean, median and 90 % quantile; None of no values. Costs are right-skewed, so all three."""
    mean = sum(values) / len(values) if values else None
    return {"p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "mean": mean}


def usage(rows: list[Row], prices: Prices | None) -> dict[str, Any]:
    """Calls, tokens and dollars of a run, and their distribution over its samples."""
    calls = [call for row in rows for call in row["calls"]]
    usd = [usd_of(row["calls"], prices) for row in rows]
    known = [value for value in usd if value is not None]
    return {
        "lm_calls": len(calls),
        "tokens": tokens_of(calls),
        "usd": usd_of(calls, prices),
        "usd_per_sample": distribution(known),
        "tokens_per_sample": distribution(
            [float(sum(tokens_of(row["calls"]).values())) for row in rows if row["calls"]]
        ),
        "lm_seconds": {k: v for k, v in distribution([c["seconds"] for c in calls]).items()},
        "seconds": distribution([row["seconds"] for row in rows]),
    }
