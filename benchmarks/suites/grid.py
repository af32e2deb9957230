"""A suite: a grid of runs (methods x streams x seeds x overrides) from one YAML file.

include: flips-glyphs              # optional: another suite, which this one changes and adds to
out: runs/demo                     # each run has its folder below this
common: {trainer: {...}}           # what all runs share: any option of `holdfast test`
methods: {Tent: {class_path: Tent, init_args: {...}}, EATA: eata, ...}   # or a file in configs/methods
streams: {ccc: {class_path: CCC, init_args: {...}}, ...}   # or one in configs/streams
seeds: [43, 44, 45]                # of the streams
overrides: {fast: {...}, ...}      # optional: further variants, merged last

"{seed}" in any text stands for the seed. A stream with `each` stands for many, see `expanded`.
Streams with the same `setting: NAME` (of one data set, one protocol) are rows or columns of a table
together; a stream without one is a setting by itself.
"""

from collections.abc import Collection, Iterator
from copy import deepcopy
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ... import HoldfastError
from ...files import read_yaml
from .cell import Cell

CONFIGS = Path(__file__).parents[1] / "configs"


class Key(NamedTuple):
    """A key of a suite: the type of its value and, if that is a mapping, of the values in it."""

    kind: type
    entries: tuple[type, ...] = (object,)
    required: bool = False


KEYS = {
    "include": Key(str),
    "out": Key(str, required=True),
    "common": Key(dict),
    "methods": Key(dict, (dict, str), required=True),
    "streams": Key(dict, (dict, str), required=True),
    "seeds": Key(list),
    "overrides": Key(dict, (dict,)),
}
STREAM_KEYS = {"each": Key(dict, (list,)), "setting": Key(str)}  # of a stream, besides its class
ENTRY = ("class_path", "init_args")  # of a method or a stream
KINDS: dict[type, str] = {str: "a text", dict: "a mapping", list: "a list"}


def load(name: str | Path, including: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The suite of that file, or of that name among the ones that come with Holdfast.

    including: the suites that include it.
    """
    path = CONFIGS / f"{name}.yaml"
    path = path if path.is_file() else Path(name)
    if not path.is_file():
        known = sorted(p.stem for p in CONFIGS.glob("*.yaml"))
        raise HoldfastError(f"there is no suite '{name}': give a YAML file, or {', '.join(known)}.")
    if path.resolve() in including:
        raise HoldfastError(
            f"{path} includes itself, by way of others perhaps: leave that include out."
        )
    suite = read_yaml(path)
    if isinstance(suite, dict) and "include" in suite:
        check(suite["include"], KEYS["include"], f"{path}: include")
        suite = merged(load(suite.pop("include"), (*including, path.resolve())), suite)
    required = [key for key in KEYS if KEYS[key].required]
    if not isinstance(suite, dict) or not set(required) <= suite.keys() <= KEYS.keys():
        optional = [key for key in KEYS if key not in required]
        unknown = sorted(map(str, set(suite) - set(KEYS))) if isinstance(suite, dict) else []
        wrong = f"; it has {listed(unknown)}" if unknown else ""
        raise HoldfastError(
            f"{path} must have {listed(required)}, and may have {listed(optional)}{wrong}."
        )
    for key, value in suite.items():
        check(value, KEYS[key], f"{path}: {key}")
    for name, stream in suite["streams"].items():
        given = stream if isinstance(stream, dict) else {}
        for key in (key for key in STREAM_KEYS if key in given):
            check(stream[key], STREAM_KEYS[key], f"{path}: streams/{name}/{key}")
        for word, values in given.get("each", {}).items():
            not_empty(values, f"{path}: streams/{name}/each/{word}")
        known_keys(given, {*ENTRY, *STREAM_KEYS}, f"{path}: streams/{name}")
    for name, method in suite["methods"].items():
        known_keys(method if isinstance(method, dict) else {}, ENTRY, f"{path}: methods/{name}")
    for key in () if including else ("methods", "streams", "seeds"):
        not_empty(suite.get(key, True), f"{path}: {key}")
    return suite


def not_empty(value: Any, place: str) -> None:
    """Refuse an axis of the grid without a value, which would leave no run."""
    if not value:
        raise HoldfastError(f"{place} is empty: give at least one, or leave it out.")


def known_keys(entry: dict[str, Any], known: Collection[str], place: str) -> None:
    """Refuse a misspelt key beside `class_path` and `init_args`."""
    if unknown := sorted(map(str, set(entry) - set(known))):
        raise HoldfastError(f"{place} has {listed(unknown)}: it may have {listed(sorted(known))}.")


def check(value: Any, key: Key, place: str) -> None:
    """Refuse a value of the wrong kind, and entries of the wrong kind in it."""
    if not isinstance(value, key.kind):
        given = "empty: fill it, or leave it out" if value is None else f"not {value!r}"
        raise HoldfastError(f"{place} must be {KINDS[key.kind]}, {given}.")
    for name, entry in value.items() if isinstance(value, dict) else ():
        if not isinstance(entry, key.entries):
            kinds = " or ".join(KINDS[kind] for kind in key.entries)
            raise HoldfastError(f"{place}/{name} must be {kinds}, not {entry!r}.")


def listed(words: list[str]) -> str:
    """Words as in a sentence: "out, methods and streams"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def cells(suite: dict[str, Any]) -> Iterator[Cell]:
    """The runs of the grid, all methods of one stream together."""
    axes = (
        expanded(suite["streams"]),
        suite.get("seeds", [43]),
        (suite.get("overrides") or {"": {}}).items(),
        suite["methods"].items(),
    )
    for (stream, data), seed, (variant, override), (method, model) in product(*axes):
        data, model = named(data, "streams", "data"), named(model, "methods", "model")
        seeded = {"seed_everything": seed, "data": {"init_args": {"seed": seed}}}
        config = merged(suite.get("common", {}), {"data": data}, seeded, {"model": model}, override)
        config = filled(config, {"seed": seed})
        folder = Path(suite["out"]) / f"{stream}-seed{seed}" / f"{method}{variant and '-'}{variant}"
        check_inside(folder, suite["out"])
        names = {"method": method, "override": variant, "stream": stream, "seed": seed}
        names["setting"] = str(config["data"].pop("setting", stream))
        yield Cell(names, folder, config)


def check_inside(folder: Path, out: str) -> None:
    """Refuse a method, stream or override whose name leads out of the suite's folder."""
    parts = folder.relative_to(out).parts if folder.is_relative_to(out) else ()
    if len(parts) < 2 or ".." in parts or "\0" in str(folder):
        raise HoldfastError(f"{folder} is not in {out}: leave '/' and '..' out of the names.")


def named(config: dict[str, Any] | str, folder: str, key: str) -> dict[str, Any]:
    """A method or stream as it is written, or as it stands under its name in configs/."""
    if not isinstance(config, str):
        return config
    path = CONFIGS / folder / f"{config}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise HoldfastError(f"there is no {folder}/{config}.yaml: choose one of {known}.")
    return yaml.safe_load(path.read_text())[key]


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
        config = config.replace(f"{{{word}}}", str(value))
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


def share(cells: list[Cell], number: int, shares: int) -> list[Cell]:
    """Share `number` (from 0) of a grid that is divided into `shares` disjoint ones.

    The order moves by one whenever it would repeat, so that no share gets all runs of the slowest method.
    """
    period = lcm(len({cell.names["method"] for cell in cells}), shares)
    return [cell for k, cell in enumerate(cells) if (k + k // period) % shares == number]
