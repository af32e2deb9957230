"""A suite: a grid of runs (methods x streams x seeds x overrides) from one YAML file.

include: rdumb/base                # optional: other suites, or one, which this one modifies or extends
out: runs/demo                     # the folder with one sub-folder per run
common: {trainer: {...}}           # options of `holdfast test` shared by all runs
methods: {Tent: {class_path: Tent, init_args: {...}}, EATA: eata, ...}   # or names in configs/methods.yaml
tuned: rdumb                       # optional: arguments by network and method, which `holdfast tune` writes
streams: {ccc: {class_path: CCC, init_args: {...}}, ...}   # or names in configs/streams.yaml
seeds: [43, 44, 45]                # stream seeds
overrides: {fast: {...}, ...}      # optional: variants of the runs, merged last
scales: {embedded: {...}, full: {...}}   # optional: the keys above for each scale; default: the first

"{seed}" in any string is replaced by the seed. A stream or an override with `each` expands to several
(see `expanded`); the values it varies are recorded as the runs' factors. An override with
`methods: {RDumb: {init_args: {...}}}` applies only to these methods; a method without an override of its
own is run unchanged.
Streams with the same `setting: NAME` (one dataset and protocol) are reported in one table; a stream
without a `setting` forms a separate setting.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ...files import read_yaml
from ...imagenet import FAMILIES
from ..presets import CONFIGS, preset
from .cell import Cell
from .suite_schema import File, Suite, Tuned, validate

SUITES = CONFIGS / "suites"


class Variant(NamedTuple):
    """One stream or override of a suite, with the factors that it varies."""

    name: str
    config: Any
    factors: dict[str, Any]  # {"every": 125}


def read_suite(name: str | Path, scale: str | None = None) -> dict[str, Any]:
    """Load a suite at a scale (default: its first) from a YAML file, or by the name of one of Holdfast's.

    Raises:
        HoldfastError: if the file or scale does not exist, or the suite is invalid.
    """
    path = suite_file(name)
    suite = included(path, scale)
    if scale is not None and scale not in scales(path):
        known = ", ".join(scales(path)) or "none"
        raise HoldfastError(f"{path} has no scale '{scale}'. Its scales: {known}.")
    for key in ("methods", "streams", "seeds"):
        if not suite.get(key, True):
            raise HoldfastError(f"{path}: {key} is empty. Add an entry or remove the key.")
    return suite


def scales(name: str | Path) -> list[str]:
    """The scales that a suite declares, the default first; [] for a suite without scales."""
    content = read_yaml(suite_file(name))
    return list(content.get("scales") or ()) if isinstance(content, dict) else []


def suite_file(name: str | Path) -> Path:
    """The file of a suite that comes with Holdfast, or another file."""
    path = SUITES / f"{name}.yaml"
    path = path if path.is_file() else Path(name)
    if not path.is_file():
        known = sorted(
            p.relative_to(SUITES).with_suffix("").as_posix() for p in SUITES.rglob("*.yaml")
        )
        raise HoldfastError(
            f"There is no suite '{name}'. Pass a YAML file, or one of {', '.join(known)}."
        )
    return path


def included(path: Path, scale: str | None) -> dict[str, Any]:
    """The content of a suite's file at a scale, merged into that of the suites that it includes."""
    suite = read_yaml(path)
    validate(File, suite, str(path))
    if levels := suite.pop("scales", None):
        suite = merged(suite, levels.get(scale, next(iter(levels.values()))))
    if names := suite.pop("include", None):
        below = [
            included(suite_file(name), scale)
            for name in ([names] if isinstance(names, str) else names)
        ]
        suite = merged(*below, suite)
    validate(Suite, suite, str(path))
    for name, override in (suite.get("overrides") or {}).items():
        if unknown := sorted(set(override.get("methods", {})) - suite["methods"].keys()):
            raise HoldfastError(
                f"{path}: overrides/{name}/methods has {', '.join(unknown)}. Choose from "
                f"{', '.join(suite['methods'])}."
            )
    return suite


def cells(suite: dict[str, Any]) -> Iterator[Cell]:
    """The runs of the grid, grouped by stream."""
    streams = [(s, preset("streams", s.config)) for s in expanded(suite["streams"])]
    variants = [(o, m, preset("methods", model)) for o, m, model in variants_of(suite)]
    tuned = read_tuned(suite["tuned"]) if "tuned" in suite else {}
    for (stream, data), seed, (override, method, model) in product(
        streams, suite.get("seeds", [43]), variants
    ):
        seeded = {"seed_everything": seed, "data": {"init_args": {"seed": seed}}}
        changes = {key: value for key, value in override.config.items() if key != "methods"}
        of_method = {"model": override.config.get("methods", {}).get(method, {})}
        common = suite.get("common", {})
        layers = [common, {"data": data}, seeded, {"model": model}, changes, of_method]
        network = merged(*layers)["model"].get("init_args", {}).get("backbone")
        chosen = tuned.get(network, {}).get(method, {})
        layers.insert(4, {"model": {"init_args": chosen}} if chosen else {})
        config = merged(*layers)
        config = filled(config, {"seed": seed})
        variant = override.name
        folder = (
            Path(suite["out"]) / f"{stream.name}-seed{seed}" / f"{method}{variant and '-'}{variant}"
        )
        names = {"method": method, "override": variant, "stream": stream.name, "seed": seed}
        names["setting"] = str(config["data"].pop("setting", stream.name))
        yield Cell(names, folder, config, {**stream.factors, **override.factors})


def read_tuned(name: str) -> dict[str, dict[str, Any]]:
    """Arguments {network: {method: {...}}} from a file, or by a name in configs/tuned.

    Raises:
        HoldfastError: if the file does not exist, or has another form.
    """
    path = CONFIGS / "tuned" / f"{name}.yaml"
    path = path if path.is_file() else Path(name)
    if not path.is_file():
        raise HoldfastError(f"There is no file {name}. Run `holdfast tune` to write it.")
    content = read_yaml(path)
    validate(Tuned, content, str(path))
    return content


def variants_of(suite: dict[str, Any]) -> Iterator[tuple[Variant, str, Any]]:
    """All pairs of an override and a method that it applies to; methods without an override come first."""
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


def share(cells: list[Cell], number: int, shares: int) -> list[Cell]:
    """Share `number` (from 0) of a grid divided into `shares` disjoint parts.

    The assignment shifts by one in each cycle, so that no share gets all runs of the slowest method.
    """
    period = lcm(len({cell.names["method"] for cell in cells}), shares)
    return [cell for k, cell in enumerate(cells) if (k + k // period) % shares == number]


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
