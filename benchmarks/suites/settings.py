"""All settings of a cell, including the defaults of the classes."""

import inspect
import json
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from ...files import jsonable
from .cell import Cell

# Settings of paths, loading and display, which do not affect results.
INDIFFERENT = {
    *("root", "folder", "calibration", "num_workers", "seed", "on_device", "at_once", "broken"),
    *("accelerator", "devices", "logger", "default_root_dir", "out", "progress", "resume"),
    *("save_every", "seed_everything", "enable_progress_bar", "threads"),
    "precorrupted",  # implied by the class of the stream
}
ROOMS = ("methods", "callbacks", "datamodules")  # folders whose classes need no module path


class Setting(NamedTuple):
    """The value of an argument, and whether it is the class's default."""

    value: Any
    default: bool = False


def settings(cell: Cell) -> dict[str, Setting]:
    """Every setting that can affect the results of a run, by its path.

    {"data": "CINC", "data.severity": 5, "model.optimizer.lr": 0.001, "AETTA.passes": 10, ...}; the second
    of several callbacks of one class is "AETTA_2". "{seed}" stands for the seed.
    """
    config = jsonable(cell.config)
    trainer = config.pop("trainer", None) or {}
    found: dict[str, Setting] = {}
    for key in ("data", "model"):
        found |= of_entry(json.dumps(config.pop(key, {}), sort_keys=True), key)
    count: dict[str, int] = {}
    for entry in trainer.pop("callbacks", None) or []:
        name = entry["class_path"].rpartition(".")[2]
        count[name] = count.get(name, 0) + 1
        place = name if count[name] == 1 else f"{name}_{count[name]}"
        found |= of_entry(json.dumps(entry, sort_keys=True), place)
    for key, value in {**config, **{f"trainer.{k}": v for k, v in trainer.items()}}.items():
        found[key] = Setting(value)
    of_seed = f"seed{cell.names['seed']}" if "seed" in cell.names else None
    return {
        place: generic(setting, of_seed)
        for place, setting in found.items()
        if place.rpartition(".")[2] not in INDIFFERENT
    }


def generic(setting: Setting, of_seed: str | None) -> Setting:
    """The setting with the seed in a file name replaced by "{seed}"."""
    if of_seed is None or of_seed not in str(setting.value):
        return setting
    text = json.dumps(setting.value).replace(of_seed, "seed{seed}")
    return Setting(json.loads(text), setting.default)


@lru_cache(maxsize=4096)
def of_entry(entry: str, place: str) -> dict[str, Setting]:
    """The settings of a class and of all its arguments, from its configuration as JSON."""
    return dict(resolved(json.loads(entry), place))


def resolved(value: Any, place: str, default: bool = False) -> Iterator[tuple[str, Setting]]:
    """The setting at this path and, if the value is a class with arguments, those below it."""
    if isinstance(value, str) and (thing := known(value)) and inspect.isclass(thing):
        value = {"class_path": value}
    if isinstance(value, list) and any(isinstance(e, dict) and "class_path" in e for e in value):
        for number, entry in enumerate(value):
            yield from resolved(entry, f"{place}.{number + 1}", default)
    elif isinstance(value, dict) and "class_path" in value:
        thing, given = known(value["class_path"]), value.get("init_args") or {}
        yield place, Setting(value["class_path"].rpartition(".")[2], default)
        usual = defaults(thing) if thing is not None else {}
        for name in {**usual, **given}:
            own, is_default = given.get(name, usual.get(name)), same(name, given, usual)
            if name == "optimizer":
                for key, setting in optimizer(own, usual.get(name)).items():
                    yield f"{place}.{name}{key and '.'}{key}", setting
            else:
                yield from resolved(own, f"{place}.{name}", is_default)
    else:
        yield place, Setting(getattr(value, "__name__", value), default)


def same(name: str, given: dict[str, Any], usual: dict[str, Any]) -> bool:
    """Whether an argument equals its default."""
    return name not in given or (name in usual and given[name] == usual[name])


def known(path: str) -> Any:
    """The class or function at a class path, or of that name in Holdfast; None if unknown."""
    module, _, name = path.rpartition(".")
    if not name.isidentifier() or not (module or name[0].isupper()):
        return None
    rooms = [module] if module else [f"{__name__.partition('.')[0]}.{room}" for room in ROOMS]
    for room in rooms:
        try:
            return getattr(import_module(room), name)
        except (ImportError, AttributeError, ValueError):
            continue
    return None


@cache
def defaults(thing: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a class or function, including those of its parents."""
    from jsonargparse import ArgumentParser  # deferred: slow import

    parser = ArgumentParser(exit_on_error=False)
    add = parser.add_class_arguments if inspect.isclass(thing) else parser.add_function_arguments
    add(thing, fail_untyped=False)
    accepted = vars(parser.get_defaults())
    return {k: list(v) if isinstance(v, tuple) else v for k, v in accepted.items()}


@cache
def only_watches(name: str) -> bool:
    """Whether a callback only observes its run."""
    from ...callbacks.recovery import Recovery

    thing = known(name.partition("_")[0])
    return inspect.isclass(thing) and not issubclass(thing, Recovery)


def optimizer(given: Any, usual: Any) -> dict[str, Setting]:
    """An optimizer's class and all its settings: {"": "SGD", "lr": 0.001, ...}."""
    import torch

    parameters = [torch.nn.Parameter(torch.zeros(1))]
    own: dict[str, Any] = {}
    if isinstance(given, dict) and (thing := known(given.get("class_path", ""))):
        made = thing(parameters, **given.get("init_args", {}))
    elif callable(usual):
        made = usual(parameters)
        own = given.get("init_args", {}) if isinstance(given, dict) else {}
    else:
        return {"": Setting(given)}
    accepted = inspect.signature(type(made)).parameters
    found = {"": Setting(type(made).__name__)}
    for name, value in {**made.defaults, **own}.items():
        plain = list(value) if isinstance(value, tuple) else value
        usually = accepted[name].default if name in accepted else None
        found[name] = Setting(plain, value == usually)
    return found
