"""Streams of a suite that differ in a few words only, written once."""

from collections.abc import Iterator
from itertools import product
from typing import Any


def expanded(streams: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each stream by its name; one with `each: {word: [values]}` once for every combination of values.

    "{word}" in its name and texts stands for the value: {"fog {level}": {each: {level: [1, 2]}, ...}}
    is the streams "fog 1" and "fog 2". A text that is nothing but "{word}" becomes the value itself.
    """
    for name, stream in streams.items():
        if isinstance(stream, str) or "each" not in stream:
            yield name, stream
            continue
        rest = {key: value for key, value in stream.items() if key != "each"}
        for values in product(*stream["each"].values()):
            words = dict(zip(stream["each"], values, strict=True))
            yield filled(name, words), filled(rest, words)


def filled(part: Any, words: dict[str, Any]) -> Any:
    """The same with the words in its texts filled in."""
    if isinstance(part, dict):
        return {key: filled(value, words) for key, value in part.items()}
    if isinstance(part, list):
        return [filled(value, words) for value in part]
    if not isinstance(part, str):
        return part
    for word, value in words.items():
        if part == f"{{{word}}}":
            return value
        part = part.replace(f"{{{word}}}", str(value))
    return part
