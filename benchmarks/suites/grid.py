"""A suite: a grid of runs (methods x streams x seeds x overrides) from one YAML file.

out: runs/demo                     # each run has its folder below this
common: {trainer: {...}}           # what all runs share: any option of `holdfast test`
methods: {Tent: {class_path: Tent, init_args: {...}}, EATA: eata, ...}   # or a file in configs/methods
streams: {ccc: {class_path: CCC, init_args: {...}}, ...}   # with `each`, many: see expansion.py
seeds: [43, 44, 45]                # of the streams
overrides: {fast: {...}, ...}      # optional: further variants, merged last
"{seed}" in any text stands for the seed.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ... import HoldfastError
from ...files import read_json, unwritable, write_json
from ...run_folder import CELL, SUMMARY
from .expansion import expanded, filled

CONFIGS = Path(__file__).parents[1] / "configs"
KINDS = {
    "out": str,
    "common": dict,
    "methods": dict,
    "streams": dict,
    "seeds": list,
    "overrides": dict,
}
WORDS = {str: "a text", dict: "a mapping", list: "a list"}


class Cell(NamedTuple):
    """One run of the grid: its names, its folder and its `holdfast test` configuration."""

    names: dict[str, Any]
    folder: Path
    config: dict[str, Any]

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).exists()


def load(name: str | Path) -> dict[str, Any]:
    """The suite of that file, or of that name among the ones that come with Holdfast."""
    named = CONFIGS / f"{name}.yaml"
    path = named if named.is_file() else Path(name)
    if not path.is_file():
        known = sorted(p.stem for p in CONFIGS.glob("*.yaml"))
        raise HoldfastError(f"there is no suite '{name}': give a YAML file, or {', '.join(known)}.")
    try:
        suite = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise HoldfastError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if isinstance(suite, dict) and "include" in suite:
        suite = merged(load(suite.pop("include")), suite)
    if (
        not isinstance(suite, dict)
        or not {"out", "methods", "streams"} <= suite.keys() <= KINDS.keys()
    ):
        raise HoldfastError(
            f"{path} must have out, methods and streams, and may have common, seeds and overrides."
        )
    for key, value in suite.items():
        if not isinstance(value, KINDS[key]):
            raise HoldfastError(f"{path}: {key} must be {WORDS[KINDS[key]]}, not {value!r}.")
    for key in ("methods", "streams", "overrides"):
        for name, value in suite.get(key, {}).items():
            if not isinstance(value, dict if key == "overrides" else (dict, str)):
                raise HoldfastError(
                    f"{path}: {key}/{name} must be a mapping (methods and streams may also be a name), "
                    f"not {value!r}."
                )
    return suite


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
        names = {"method": method, "stream": stream, "seed": seed, "override": variant}
        yield Cell(names, folder, config)


def named(part: dict[str, Any] | str, folder: str, key: str) -> dict[str, Any]:
    """A method or stream as it is written, or as it stands under its name in configs/."""
    if not isinstance(part, str):
        return part
    path = CONFIGS / folder / f"{part}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise HoldfastError(f"there is no {folder}/{part}.yaml: choose one of {known}.")
    return yaml.safe_load(path.read_text())[key]


def merged(*configs: dict[str, Any]) -> dict[str, Any]:
    """Nested mappings merged, later ones first in rank."""
    result: dict[str, Any] = {}
    for config in configs:
        for key, value in config.items():
            old = result.get(key)
            nested = isinstance(old, dict) and isinstance(value, dict)
            result[key] = merged(old or {}, value) if nested else deepcopy(value)
    return result


def prepare(cells: list[Cell]) -> None:
    """Write what is to be run into each cell's folder; refuse to mix two configurations in one."""
    try:
        for cell in cells:
            check_one_device(cell)
            check_same(cell)
        for cell in cells:
            cell.folder.mkdir(parents=True, exist_ok=True)
            if not (cell.folder / CELL).exists():
                facts = {"names": cell.names, "config": jsonable(cell.config)}
                write_json(cell.folder / CELL, facts)
    except OSError as error:
        raise unwritable(cell.folder, error, "or choose another `out`.") from None


def check_one_device(cell: Cell) -> None:
    """Refuse what would start this whole command again for each further device."""
    devices = cell.config.get("trainer", {}).get("devices", 1)
    if devices not in (1, "1", "auto") and not (isinstance(devices, list) and len(devices) == 1):
        raise HoldfastError(
            f"{cell.folder} asks for devices: {devices}, and a suite's run has one: use --jobs to run "
            "several at once, or `holdfast test` for one run on several devices."
        )


def check_same(cell: Cell) -> None:
    """Refuse to mix the results of two configurations in one folder."""
    found = read_json(cell.folder / CELL)
    if found and found["config"] != jsonable(cell.config):
        raise HoldfastError(
            f"{cell.folder} holds a run of another configuration: choose another `out` or remove it."
        )


def jsonable(config: dict[str, Any]) -> Any:
    return json.loads(json.dumps(config, default=str))


def part(cells: list[Cell], number: int, parts: int) -> list[Cell]:
    """One of `parts` disjoint parts of a grid.

    The order moves by one whenever it would repeat, so that no part gets all runs of the slowest method.
    """
    period = lcm(len({cell.names["method"] for cell in cells}), parts)
    return [cell for k, cell in enumerate(cells) if (k + k // period) % parts == number]
