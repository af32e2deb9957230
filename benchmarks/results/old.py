"""Reads the formats of earlier versions; the only place that knows them."""

from typing import Any


def with_pairs(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a record whose corruptions are pairs, where an earlier version wrote them as text.

    >>> with_pairs({"corruptions": "fog@2.5+snow@1"})
    {'corruptions': [['fog', 2.5], ['snow', 1.0]]}
    """
    text = row.get("corruptions")
    if not isinstance(text, str):
        return row
    if not text:  # the data were no stream
        return {**row, "corruptions": None}
    named = [] if text == "clean" else [part.partition("@") for part in text.split("+")]
    return {**row, "corruptions": [[name, float(level or 0)] for name, _, level in named]}
