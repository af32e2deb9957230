"""Trials: the methods of a suite, each with several settings, on a stream that the suite does not use."""

import json
from collections.abc import Iterable, Iterator
from math import ceil, log10
from typing import Any, NamedTuple

from ... import HoldfastError
from ...imagenet import EXTRA
from ..presets import preset
from . import grid
from .cell import Cell
from .grid import Variant, merged

ROUND = [float(f"{m}e{e}") for e in range(-9, 4) for m in (1, 2, 5)]  # learning rates
PARTS = 15  # of CINCHoldout's stream: four corruptions, 3.75 times
SHORTEST = 128  # batches of a trial's stream
SEEDS = [1000, 1001]  # of the trials
HELD_OUT = "hold-out"  # the stream's name


class Trial(NamedTuple):
    """A method with a network of a suite, and the values to try."""

    method: str
    network: str
    override: Variant
    optimizer: dict[str, Any]  # the class's default, if the suite has none
    second: tuple[str, Any, float] | None  # an argument, its value in the suite, and its factor
    every: int  # steps between periodic resets, or 0
    values: dict[str, Any]  # {"lr": 0.002}; {} for a method that does not adapt

    @property
    def key(self) -> tuple[str, str]:
        """What is tuned: a method with a network."""
        return self.method, self.network

    @property
    def text(self) -> str:
        """The values, as in the name of its runs."""
        return ", ".join(f"{name} {value:g}" for name, value in self.values.items())

    @property
    def name(self) -> tuple[str, str, str]:
        """What distinguishes it from other trials."""
        return *self.key, self.text

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the method that the values stand for."""
        arguments = {name: value for name, value in self.values.items() if name != "lr"}
        if rate := self.values.get("lr"):
            arguments["optimizer"] = merged(self.optimizer, {"init_args": {"lr": rate}})
        return arguments


def defaults(suite: dict[str, Any]) -> Iterator[Trial]:
    """The suite's own settings of each method with each network, without tuned ones.

    The settings that are not tried are those of the first override with the network.
    """
    from ... import methods  # deferred: imports torch
    from .settings import settings

    suite, seen = untuned(suite), set()
    pairs = zip(grid.variants_of(suite), grid.cells(suite), strict=False)
    for (override, method, _), cell in pairs:
        key = method, str(cell.config["model"].get("init_args", {}).get("backbone"))
        if key in seen:
            continue
        seen.add(key)
        usual = settings(cell)
        name = usual["model"].value
        kind = getattr(methods, name, None)
        if getattr(kind, "adapts", "") == "nothing":
            yield Trial(*key, override, {}, None, 0, {})
            continue
        start, optimizer = "model.optimizer.", {}
        if "optimizer" not in cell.config["model"]["init_args"]:
            arguments = {k.removeprefix(start): v for k, v in usual.items() if k.startswith(start)}
            changed = {k: v.value for k, v in arguments.items() if not v.default}
            class_path = f"torch.optim.{usual['model.optimizer'].value}"
            optimizer = {"class_path": class_path, "init_args": changed}
        argument, factor = getattr(kind, "tunable", None) or ("", 0)
        second = (argument, usual[f"model.{argument}"].value, factor) if argument else None
        owners = [path.removesuffix(".every") for path in usual if path.endswith(".every")]
        resets = [path for path in owners if usual[path].value in ("RDumb", "PeriodicReset")]
        every = max((usual[f"{path}.every"].value for path in resets), default=0)
        yield Trial(*key, override, optimizer, second, every, {"lr": usual[f"{start}lr"].value})


def untuned(suite: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in suite.items() if key != "tuned"}


def rates(suite: dict[str, Any], budget: int) -> list[Trial]:
    """Trials of the learning rate of each method with each network.

    The rates are those that the suite states under `tune: {rates: [...]}`, or its own and round ones around
    it. A method with a second argument leaves two of its trials to that.
    """
    return [
        trial._replace(values={"lr": rate})
        for trial in defaults(suite)
        if trial.values
        for rate in suite.get("tune", {}).get("rates")
        or nearby(trial.values["lr"], budget - 2 * bool(trial.second))
    ]


def nearby(rate: float, number: int) -> list[float]:
    """A learning rate and round ones around it, `number` in all.

    >>> nearby(0.006, 4)
    [0.001, 0.002, 0.006, 0.01]
    """
    middle = min(range(len(ROUND)), key=lambda n: abs(log10(ROUND[n] / rate)))
    first = middle - number // 2
    return [*ROUND[first:middle], rate, *ROUND[middle + 1 : first + number]]


def seconds(best: Trial) -> list[Trial]:
    """Trials of the second argument with the best rate: a lower and a higher value."""
    if best.second is None:
        return []
    name, usual, factor = best.second
    values = [type(usual)(usual / factor), type(usual)(usual * factor)]
    return [best._replace(values={**best.values, name: value}) for value in values]


def on_holdout(suite: dict[str, Any], steps: int | None = None) -> dict[str, Any]:
    """The suite on a stream that it does not use, longer than the longest interval between resets.

    The stream has the hold-out corruptions on the source of the suite's first stream. `tune: {stream: ...,
    seeds: ...}` in the suite changes it.

    Raises:
        HoldfastError: if the suite uses these corruptions, has no source, or `steps` are too few.
    """
    tune = {"stream": {}, "seeds": SEEDS, **suite.get("tune", {})}
    streams = [preset("streams", entry) for entry in suite["streams"].values()]
    used = [word for word in ("CINCHoldout", *EXTRA) if f'"{word}"' in json.dumps(streams)]
    arguments = merged(suite.get("common", {}).get("data", {}), streams[0]).get("init_args", {})
    while "stream" in arguments:
        arguments = arguments["stream"]["init_args"]
    common = ("source", "table", "quality", "batch_size", "num_workers")
    arguments = {name: arguments[name] for name in common if name in arguments}
    if "class_path" not in tune["stream"] and (used or "source" not in arguments):
        problem = f"use {used[0]}" if used else "have no `source` of clean images"
        raise HoldfastError(
            f"The suite's streams {problem}, so the trials need another stream. State one under tune: "
            "{stream: {class_path: ..., init_args: {...}}}."
        )
    longest = max(t.every * (t.second[2] if t.second else 1) for t in defaults(suite))
    steps = steps or max(SHORTEST, ceil(1.5 * longest))
    if steps <= longest:
        raise HoldfastError(f"--steps must be above {longest:g}, the longest interval of a reset.")
    each = ceil(steps * arguments.get("batch_size", 64) / PARTS)
    usual = {"class_path": "CINCHoldout", "init_args": {**arguments, "each": each}}
    stream = tune["stream"] if "class_path" in tune["stream"] else merged(usual, tune["stream"])
    return {**suite, "streams": {HELD_OUT: stream}, "seeds": tune["seeds"]}


def cells(
    suite: dict[str, Any], trials: Iterable[Trial], watcher: str = "SourceAgreement"
) -> list[Cell]:
    """The runs of trials on the suite's streams; those on the hold-out have an estimator, `watcher`."""
    trial_cells: list[Cell] = []
    for trial in trials:
        config = trial.override.config
        model = merged(
            config.get("methods", {}).get(trial.method, {}), {"init_args": trial.arguments}
        )
        name = " ".join(filter(None, [trial.override.name, trial.text]))
        factors = {**trial.override.factors, **trial.values}
        override = {**config, "methods": {trial.method: model}, "factors": factors}
        methods = {trial.method: suite["methods"][trial.method]}
        of_trial = {**untuned(suite), "methods": methods, "overrides": {name: override}}
        trial_cells += grid.cells(of_trial)
    for cell in trial_cells if HELD_OUT in suite["streams"] else ():
        trainer = cell.config.setdefault("trainer", {})
        trainer["callbacks"] = [*trainer.get("callbacks", []), {"class_path": watcher}]
    return trial_cells
