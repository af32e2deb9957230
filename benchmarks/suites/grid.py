"""A suite: a grid of runs (methods x streams x seeds x overrides) from one YAML file.

include: flips-glyphs              # optional: another suite, which this one changes and adds to
out: runs/demo                     # each run has its folder below this
common: {trainer: {...}}           # what all runs share: any option of `holdfast test`
methods: {Tent: {class_path: Tent, init_args: {...}}, EATA: eata, ...}   # or a file in configs/methods
streams: {ccc: {class_path: CCC, init_args: {...}}, ...}   # or one in configs/streams
seeds: [43, 44, 45]                # of the streams
overrides: {fast: {...}, ...}      # optional: variants of the runs, merged last

"{seed}" in any text stands for the seed. A stream or an override with `each` stands for many, see
`variants.expanded`; what it varies is kept as the runs' factors. An override with
`methods: {RDumb: {init_args: {...}}}` changes these methods and exists for them only; a method without
any override of its own is run as it is.
Streams with the same `setting: NAME` (of one data set, one protocol) are rows or columns of a table
together; a stream without one is a setting by itself.
"""

from collections.abc import Collection, Iterator
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ... import HoldfastError
from ...files import read_yaml
from .cell import Cell
from .variants import Variant, expanded, filled, merged, number

CONFIGS = Path(__file__).parents[1] / "configs"
MOST_RUNS = 100_000  # of a suite


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
VARIED = {"each": Key(dict, (list, dict)), "factors": Key(dict)}
STREAM_KEYS = {**VARIED, "setting": Key(str)}  # of a stream, besides its class
OVERRIDE_KEYS = {**VARIED, "methods": Key(dict, (dict,))}  # of an override, besides a run's options
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
        entry = stream if isinstance(stream, dict) else {}
        check_varied(entry, STREAM_KEYS, f"{path}: streams/{name}")
        known_keys(entry, {*ENTRY, *STREAM_KEYS}, f"{path}: streams/{name}")
    for name, override in (suite.get("overrides") or {}).items():
        check_varied(override, OVERRIDE_KEYS, f"{path}: overrides/{name}")
        if unknown := sorted(set(override.get("methods", {})) - suite["methods"].keys()):
            raise HoldfastError(
                f"{path}: overrides/{name}/methods has {listed(unknown)}. Choose from "
                f"{listed(list(suite['methods']))}."
            )
    for name, method in suite["methods"].items():
        known_keys(method if isinstance(method, dict) else {}, ENTRY, f"{path}: methods/{name}")
    for key in () if including else ("methods", "streams", "seeds"):
        not_empty(suite.get(key, True), f"{path}: {key}")
    return suite


def check_varied(entry: dict[str, Any], keys: dict[str, Key], place: str) -> None:
    """Refuse wrong kinds in a stream's or an override's own keys."""
    for key in (key for key in keys if key in entry):
        check(entry[key], keys[key], f"{place}/{key}")
    for word, values in entry.get("each", {}).items():
        not_empty(values, f"{place}/each/{word}")


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
    check_number(suite)
    streams = [(s, named(s.config, "streams", "data")) for s in expanded(suite["streams"])]
    variants = [(o, m, named(model, "methods", "model")) for o, m, model in variants_of(suite)]
    for (stream, data), seed, (override, method, model) in product(
        streams, suite.get("seeds", [43]), variants
    ):
        seeded = {"seed_everything": seed, "data": {"init_args": {"seed": seed}}}
        changes = {key: value for key, value in override.config.items() if key != "methods"}
        own = {"model": override.config.get("methods", {}).get(method, {})}
        config = merged(
            suite.get("common", {}), {"data": data}, seeded, {"model": model}, changes, own
        )
        config = filled(config, {"seed": seed})
        variant = override.name
        folder = (
            Path(suite["out"]) / f"{stream.name}-seed{seed}" / f"{method}{variant and '-'}{variant}"
        )
        check_inside(folder, suite["out"])
        names = {"method": method, "override": variant, "stream": stream.name, "seed": seed}
        names["setting"] = str(config["data"].pop("setting", stream.name))
        yield Cell(names, folder, config, {**stream.factors, **override.factors})


def variants_of(suite: dict[str, Any]) -> Iterator[tuple[Variant, str, Any]]:
    """Each override with each method that it is for; first the methods that none is for, as they are."""
    overrides = list(expanded(suite.get("overrides") or {"": {}}))
    methods = suite["methods"]
    pairs = [
        (override, method)
        for override in overrides
        for method in override.config.get("methods", methods)
    ]
    covered = {method for _, method in pairs}
    plain = [(Variant("", {}, {}), method) for method in methods if method not in covered]
    for override, method in plain + pairs:
        yield override, method, methods[method]


def check_number(suite: dict[str, Any]) -> None:
    """Refuse a grid of more runs than anybody can want, before they are listed."""
    runs = (
        number(suite["streams"])
        * len(suite.get("seeds", [43]))
        * number(suite.get("overrides") or {"": {}})
        * len(suite["methods"])
    )
    if runs > MOST_RUNS:
        raise HoldfastError(
            f"the suite lists {runs:,} runs, and at most {MOST_RUNS:,} are allowed: divide it into several."
        )


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


def share(cells: list[Cell], number: int, shares: int) -> list[Cell]:
    """Share `number` (from 0) of a grid that is divided into `shares` disjoint ones.

    The order moves by one whenever it would repeat, so that no share gets all runs of the slowest method.
    """
    period = lcm(len({cell.names["method"] for cell in cells}), shares)
    return [cell for k, cell in enumerate(cells) if (k + k // period) % shares == number]
