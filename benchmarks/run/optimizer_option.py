"""Let `--model.optimizer.lr 0.001` change a method's default optimizer without naming its class."""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from inspect import signature
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from torch import nn
from torch.optim import Optimizer

SETTING = "--model.optimizer."
NAMED = re.compile(r"--model\.optimizer(=|$)")


def with_optimizer(parser: ArgumentParser, args: Any) -> Any:
    """Add the class of the method's default optimizer if only settings of it are given."""
    if isinstance(args, Mapping):
        return in_mapping(parser, args)
    if not isinstance(args, list) or any(map(NAMED.match, args)):
        return args
    places = [place for place, word in enumerate(args) if word.startswith(SETTING)]
    values = [place + 1 for place in places if "=" not in args[place]]
    if not places:
        return args
    rest = [word for place, word in enumerate(args) if place not in (*places, *values)]
    own = own_optimizer(parser.parse_args(rest))
    if own is None:
        return args
    words = ["--model.optimizer", own["class_path"]]
    for name, value in own["init_args"].items():
        words += [f"{SETTING}{name}", json.dumps(value)]
    return [*args[: places[0]], *words, *args[places[0] :]]


def in_mapping(parser: ArgumentParser, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """`with_optimizer` for the mapping of a suite."""
    model = args.get("model")
    given = model.get("init_args") if isinstance(model, Mapping) else None
    if not isinstance(given, Mapping):
        return args
    given = dict(given)
    settings = given.pop("optimizer", None)
    more = settings.get("init_args", {}) if isinstance(settings, Mapping) else None
    if (
        not isinstance(settings, Mapping)
        or not isinstance(more, Mapping)
        or "class_path" in settings
    ):
        return args
    full = deepcopy(dict(args))
    full["model"]["init_args"] = given
    if own := own_optimizer(parser.parse_object(full)):
        own["init_args"] |= more
        full["model"]["init_args"]["optimizer"] = own
        return full
    return args


def own_optimizer(config: Namespace) -> dict[str, Any] | None:
    """Class and settings of a method's default optimizer; None if the configuration names another."""
    factory = (config.model.get("init_args") or Namespace()).get("optimizer")
    made = factory([nn.Parameter(torch.zeros(1))]) if callable(factory) else None
    if not isinstance(made, Optimizer):
        return None
    kind, usual = type(made), signature(type(made)).parameters
    changed = {k: v for k, v in made.defaults.items() if k in usual and v != usual[k].default}
    return {"class_path": f"{kind.__module__}.{kind.__qualname__}", "init_args": changed}
