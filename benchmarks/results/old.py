"""Read the file formats of earlier versions."""

from typing import Any


def with_pairs(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row whose corruptions an earlier version wrote as text to pairs.

    >>> with_pairs({"corruptions": "fog@2.5+snow@1"})
    {'corruptions': [['fog', 2.5], ['snow', 1.0]]}
    """
    text = row.get("corruptions")
    if not isinstance(text, str):
        return row
    if not text:  # the data are not a stream
        return {**row, "corruptions": None}
    named = [] if text == "clean" else [part.partition("@") for part in text.split("+")]
    return {**row, "corruptions": [[name, float(level or 0)] for name, _, level in named]}
