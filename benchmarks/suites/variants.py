"""Entries of a suite that stand for several: expands `each`, and records the factors."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ... import HoldfastError

MOST_TEXT = 1_000_000  # characters of a text with its words filled in


class Variant(NamedTuple):
    """One stream or override of a suite, with what the suite varies in it."""

    name: str
    config: Any
    factors: dict[str, Any]  # {"every": 125}


def expanded(entries: dict[str, Any]) -> Iterator[Variant]:
    """Each stream or override; one with `each: {word: values}` once for every combination of values.

    "{word}" in its name and texts stands for the value: {"fog {level}": {each: {level: [1, 2]}, ...}}
    is "fog 1" and "fog 2". A text that consists of "{word}" alone becomes the value itself. Values may be
    named, {size: {small: 16, large: 64}}: the names are then the factors and appear in the entry's
    name and setting. `factors` states what is varied without `each`.
    """
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            yield Variant(name, entry, {})
            continue
        rest = {key: value for key, value in entry.items() if key not in ("each", "factors")}
        stated = entry.get("factors") or {}
        each = entry.get("each") or {}
        for chosen in product(*map(labelled, each.values())):
            factors = {word: label for word, (label, _) in zip(each, chosen, strict=True)}
            values = {word: value for word, (_, value) in zip(each, chosen, strict=True)}
            config = filled(rest, values)
            if "setting" in rest:
                config["setting"] = filled(rest["setting"], factors)
            yield Variant(str(filled(name, factors)), config, {**stated, **factors})


def number(entries: dict[str, Any]) -> int:
    """How many variants `expanded` gives."""
    each = (entry.get("each") or {} for entry in entries.values() if isinstance(entry, dict))
    names = sum(not isinstance(entry, dict) for entry in entries.values())
    return names + sum(prod(map(len, values.values())) for values in each)


def labelled(values: list[Any] | dict[str, Any]) -> list[tuple[Any, Any]]:
    """The values, each with its name, which is the value itself unless others are given."""
    return list(values.items()) if isinstance(values, dict) else [(v, v) for v in values]


def filled(config: Any, words: dict[str, Any]) -> Any:
    """The same with the words in its texts filled in."""
    if isinstance(config, dict):
        return {key: filled(value, words) for key, value in config.items()}
    if isinstance(config, list):
        return [filled(value, words) for value in config]
    if not isinstance(config, str):
        return config
    for word, value in words.items():
        if config == f"{{{word}}}":
            return value
        place, filling = f"{{{word}}}", str(value)
        if len(config) + config.count(place) * len(filling) > MOST_TEXT:
            raise HoldfastError(
                f"'{config[:20]}...' has more than {MOST_TEXT:,} characters with {place} filled in: "
                "shorten it."
            )
        config = config.replace(place, filling)
    return config


def merged(*configs: dict[str, Any]) -> dict[str, Any]:
    """Nested mappings merged; where they disagree, the later one counts."""
    result: dict[str, Any] = {}
    for config in configs:
        for key, value in config.items():
            old = result.get(key)
            nested = isinstance(old, dict) and isinstance(value, dict)
            result[key] = merged(old or {}, value) if nested else deepcopy(value)
    return result
