"""Expand the entries of a suite that have `each`, and record their factors."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from ...imagenet import FAMILIES


class Variant(NamedTuple):
    """One stream or override of a suite, with the factors that it varies."""

    name: str
    config: Any
    factors: dict[str, Any]  # {"every": 125}


def expanded(entries: dict[str, Any]) -> Iterator[Variant]:
    """All streams or overrides; one with `each: {word: values}` yields one per combination of values.

    "{word}" in names and strings is replaced by the value: {"fog {level}": {each: {level: [1, 2]}, ...}}
    expands to "fog 1" and "fog 2". A string that consists only of "{word}" becomes the value itself.
    The word `imagenet-c` is short for the list of its corruptions, and so are the other names in FAMILIES.
    Values may be named, as in {size: {small: 16, large: 64}}; the names are then the factors and appear in
    the entry's name and setting. Entries without `each` may state their factors under `factors`.
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


def labelled(values: list[Any] | dict[str, Any] | str) -> list[tuple[Any, Any]]:
    """Pairs of name and value; an unnamed value is its own name, a string names corruptions."""
    if isinstance(values, str):
        values = list(FAMILIES[values])
    return list(values.items()) if isinstance(values, dict) else [(v, v) for v in values]


def filled(config: Any, words: Mapping[str, Any]) -> Any:
    """A copy of the configuration with "{word}" replaced in all strings."""
    if isinstance(config, dict):
        return {key: filled(value, words) for key, value in config.items()}
    if isinstance(config, list):
        return [filled(value, words) for value in config]
    if not isinstance(config, str):
        return config
    for word, value in words.items():
        if config == f"{{{word}}}":
            return value
        config = config.replace(f"{{{word}}}", str(value))
    return config


def merged(*configs: dict[str, Any]) -> dict[str, Any]:
    """Merge nested mappings, which are copied; later values take precedence."""
    result: dict[str, Any] = {}
    for config in configs:
        for key, value in config.items():
            old = result.get(key)
            below = [old, value] if isinstance(old, dict) else [value]
            result[key] = merged(*below) if isinstance(value, dict) else value
    return result
