"""`holdfast suite`: a grid of runs (methods x streams x seeds x overrides) from one YAML file.

out: runs/demo                     # each run has its folder below this
common: {trainer: {...}}           # what all runs share: any option of `holdfast test`
methods: {Tent: {class_path: Tent, init_args: {...}}, EATA: eata, ...}   # or a file in configs/methods
streams: {ccc: {class_path: CCC, init_args: {...}}, ...}   # with `each`, many: see expansion.py
seeds: [43, 44, 45]                # of the streams
overrides: {fast: {...}, ...}      # optional: further variants, merged last
"{seed}" in any text stands for the seed.
"""

import argparse
import gc
import json
import shutil
import traceback
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .. import HoldfastError
from ..callbacks.record import SUMMARY, write_json
from .expansion import expanded, filled

CONFIGS = Path(__file__).parent / "configs"
CELL, ERROR = "cell.json", "error.txt"
KEYS = {"out", "common", "methods", "streams", "seeds", "overrides"}


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
    if not isinstance(suite, dict) or not {"out", "methods", "streams"} <= suite.keys() <= KEYS:
        raise HoldfastError(
            f"{path} must have out, methods and streams, and may have common, seeds and overrides."
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


def run(suite: dict[str, Any]) -> int:
    """Run what is not finished; returns the number of cells that failed."""
    grid = list(cells(suite))
    for cell in grid:
        check_same(cell)
    failed = 0
    for number, cell in enumerate(grid, start=1):
        if cell.finished:
            continue
        print(f"[{number}/{len(grid)}] {cell.folder}", flush=True)
        failed += not run_cell(cell)
    return failed


def check_same(cell: Cell) -> None:
    """Refuse to mix the results of two configurations in one folder."""
    path = cell.folder / CELL
    if path.exists() and json.loads(path.read_text())["config"] != jsonable(cell.config):
        raise HoldfastError(
            f"{cell.folder} holds a run of another configuration: choose another `out` or remove it."
        )


def jsonable(config: dict[str, Any]) -> Any:
    return json.loads(json.dumps(config, default=str))


def run_cell(cell: Cell) -> bool:
    """One run from its beginning; an error is written down and does not stop the others."""
    from .test import run as run_test  # here: it imports torch and lightning

    shutil.rmtree(cell.folder, ignore_errors=True)
    cell.folder.mkdir(parents=True)
    facts = {"names": cell.names, "config": jsonable(cell.config)}
    write_json(cell.folder / CELL, facts)
    try:
        run_test({**deepcopy(cell.config), "out": str(cell.folder)})
    except Exception as error:
        (cell.folder / ERROR).write_text(traceback.format_exc())
        print(f"{cell.folder} failed: {error} (details in {ERROR})", flush=True)
        return False
    finally:
        gc.collect()
    return True


def main(argv: list[str]) -> int:
    """Run a suite, then report on it."""
    parser = argparse.ArgumentParser(prog="holdfast suite", description=__doc__.splitlines()[0])
    parser.add_argument("config", help="YAML file, or the name of a suite that comes with Holdfast")
    add_options(parser)
    args = parser.parse_args(argv)
    return run_and_report(chosen(args.config, args))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What may be said instead of the file."""
    parser.add_argument("--out", help="folder for the runs, in place of the one in the file")
    parser.add_argument("--seeds", type=int, nargs="+", help="stream seeds, in place of the file's")


def chosen(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """The suite of that name, with the options given."""
    given = {"out": args.out, "seeds": args.seeds}
    return load(name) | {key: value for key, value in given.items() if value is not None}


def run_and_report(suite: dict[str, Any]) -> int:
    """Run, then print the table and draw the figure of what is there, also after Ctrl-C."""
    from . import report

    interrupted = False
    failed = 0
    try:
        failed = run(suite)
    except (KeyboardInterrupt, SystemExit):  # Lightning turns the first into the second
        interrupted = True
    report.publish(Path(suite["out"]))
    if interrupted:
        raise KeyboardInterrupt
    if failed:
        print(f"{failed} runs failed: their folders hold {ERROR}")
    return 1 if failed else 0
