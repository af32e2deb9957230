"""All settings of a cell, including the defaults of the classes."""

import inspect
import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pydoc import locate
from typing import Any, NamedTuple

import torch
from torch import nn

from ...callbacks.observer import Observer
from ...callbacks.recovery import Recovery
from ...files import jsonable
from ...methods.optimizers import settings_of
from ..test import parsed
from .cell import Cell

# Settings of paths, loading and display, which do not affect results.
INDIFFERENT = {
    *("root", "folder", "calibration", "num_workers", "seed", "on_device", "at_once"),
    *("accelerator", "devices", "logger", "default_root_dir", "out", "progress", "resume"),
    *("save_every", "keep_checkpoints", "seed_everything", "enable_progress_bar", "threads"),
    "precorrupted",  # implied by the class of the stream
}
# Completes a part of a configuration for the parser.
SMALLEST = {
    "model": {"class_path": "Source", "init_args": {"backbone": "glyphs"}},
    "data": {"class_path": "Clean", "init_args": {"source": "Glyphs"}},
    "seed_everything": False,
}


class Setting(NamedTuple):
    """The value of an argument, and whether it is a default that the configuration does not give."""

    value: Any
    default: bool = False


def settings(cell: Cell) -> dict[str, Setting]:
    """Every setting that can affect the results of a run, by its path.

    {"data": "CINC", "data.severity": 5, "model.optimizer.lr": 0.001, "AETTA.passes": 10, ...}; the second
    of several callbacks of one class is "AETTA_2". "{seed}" stands for the seed.
    """
    config = jsonable(cell.config)
    parts = [{key: config.pop(key, {})} for key in ("data", "model")]
    by_path: dict[str, Setting] = {}
    for part in (*parts, config):
        text = json.dumps(part, sort_keys=True)
        if "seed" in cell.names:
            text = text.replace(f"seed{cell.names['seed']}", "seed{seed}")
        by_path |= _of_part(text)
    return {
        path: setting
        for path, setting in by_path.items()
        if path.rpartition(".")[2] not in INDIFFERENT
    }


@lru_cache(maxsize=4096)
def _of_part(text: str) -> dict[str, Setting]:
    """The settings in a part of a configuration of `holdfast test`, which is given as JSON."""
    part = json.loads(text)
    config = parsed({**SMALLEST, **json.loads(text)})
    optimizer = config["model"].get("init_args", {}).get("optimizer")
    if callable(optimizer):  # of a user's method, whose default is no lambda
        optimizer = settings_of(optimizer([nn.Parameter(torch.zeros(1))]))
        config["model"]["init_args"]["optimizer"] = optimizer
    if "model" in part and optimizer and "optimizer" not in part["model"].get("init_args", {}):
        # What the method's default changes of the optimizer's defaults counts as stated.
        usual = inspect.signature(locate(optimizer["class_path"])).parameters  # type: ignore[arg-type]
        changed = {k: v for k, v in optimizer["init_args"].items() if v != usual[k].default}
        part["model"].setdefault("init_args", {})["optimizer"] = {
            **optimizer,
            "init_args": changed,
        }
    # Of the Trainer's arguments and the options only those of the part.
    chosen = {key: config[key] for key in part if key != "trainer"}
    if "trainer" in part:
        chosen["trainer"] = {key: config["trainer"][key] for key in part["trainer"]}
    stated = dict(_flat(part))
    return {path: Setting(value, path not in stated) for path, value in _flat(jsonable(chosen))}


def _flat(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a configuration by path, callbacks by the names of their classes."""
    config = {**config}
    trainer = {**(config.pop("trainer", None) or {})}
    callbacks_by_name = named_callbacks(trainer.pop("callbacks", None) or [])
    config |= {f"trainer.{name}": value for name, value in trainer.items()} | callbacks_by_name
    for path, value in config.items():
        yield from _below(path, value)


def named_callbacks(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The configurations of callbacks by name, numbered where a class is used several times."""
    by_name: dict[str, Any] = {}
    numbers: Counter[str] = Counter()
    for entry in entries:
        name = entry["class_path"].rpartition(".")[2]
        numbers[name] += 1
        by_name[name if numbers[name] == 1 else f"{name}_{numbers[name]}"] = entry
    return by_name


def _below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value by its path; a class by its name, and its arguments below it."""
    if isinstance(value, dict) and "class_path" in value:
        yield path, value["class_path"].rpartition(".")[2]
        for name, argument in (value.get("init_args") or {}).items():
            yield from _below(f"{path}.{name}", argument)
    elif isinstance(value, list) and any(isinstance(e, dict) and "class_path" in e for e in value):
        for number, entry in enumerate(value, 1):
            yield from _below(f"{path}.{number}", entry)
    else:
        yield path, value


def only_watches(name: str) -> bool:
    """Whether a callback of Holdfast only observes its run."""
    known = {kind.__name__: kind for kind in subclasses(Observer)}
    kind = known.get(name.partition("_")[0])
    return kind is not None and not issubclass(kind, Recovery)


def subclasses(kind: Any) -> Iterator[type]:
    """All classes that are derived from a class, of those that were imported."""
    for derived in kind.__subclasses__():
        yield derived
        yield from subclasses(derived)
