"""Check a run's configuration without its data and network."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from jsonargparse import Namespace
from torch import Tensor, nn
from torchvision.models import VisionTransformer

from ... import HoldfastError
from ...datamodules import ImageSource, Shards
from ...methods.backbones.load import check_name
from .cli_errors import parser_errors_explained
from .run_cli import RunCLI


def dry_run(config: dict[str, Any]) -> None:
    """Raise a HoldfastError if a run with this configuration could not start."""
    check_keys(config)
    with parser_errors_explained():
        DryRun(config)


def check_keys(config: Any) -> None:
    """Refuse keys that are not text, at any depth, as YAML also allows numbers and other keys."""
    if isinstance(config, Mapping):
        for key in config:
            if not isinstance(key, str):
                raise HoldfastError(
                    f"The key {key!r} of the configuration is not text. Put it in quotes."
                )
        config = list(config.values())
    for value in config if isinstance(config, list) else ():
        check_keys(value)


def argument(config: Namespace, name: str) -> Any:
    """An argument of a class in a configuration; None if absent."""
    return (config.get("init_args") or Namespace()).get(name)


class DryRun(RunCLI):
    """Checks the names and types of all arguments, and constructs callbacks, stream and method.

    Stand-ins replace the source and the network. Objects that need others, and classes of other packages,
    are not constructed.
    """

    def instantiate_classes(self) -> None:
        callbacks = self.config.trainer.callbacks or []
        for callback in callbacks if isinstance(callbacks, list) else [callbacks]:
            make(callback)
        source = argument(self.config.data, "source")
        if isinstance(source, Namespace) and imported(source) is not Shards:
            make(self.config.data, source=NoImages())
        backbone = argument(self.config.model, "backbone")
        if isinstance(backbone, str):
            check_name(backbone)
        try:
            make(self.config.model, backbone=stand_in())
        except HoldfastError as refusal:
            try:
                make(self.config.model, backbone=transformer())
            except HoldfastError:
                raise refusal from None


class NoImages(ImageSource):
    """A source whose images are never loaded."""

    classes, size = 1000, 224

    def __len__(self) -> int:
        return 50_000

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


def stand_in() -> nn.Module:
    """A small network with the layers that methods adapt."""
    layers: list[nn.Module] = []
    for channels in (3, 4, 4, 4):
        layers += [nn.Conv2d(channels, 4, 1), nn.BatchNorm2d(4)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


def transformer() -> nn.Module:
    """A small vision transformer, which REM needs."""
    return VisionTransformer(
        16, 8, num_layers=4, num_heads=1, hidden_dim=4, mlp_dim=4, num_classes=10
    )


def make(entry: Any, **stand_ins: Any) -> None:
    """Construct the object of an entry to raise its error, if any."""
    kind, given = imported(entry), dict(vars(entry.get("init_args") or Namespace()))
    if not kind.__module__.startswith("holdfast."):
        return
    arguments = {**given, **{name: it for name, it in stand_ins.items() if name in given}}
    if isinstance(own := arguments.get("optimizer"), Namespace):
        arguments["optimizer"] = lambda params: imported(own)(params, **vars(own.init_args))
    if any(map(unmade, arguments.values())):
        return
    with warnings.catch_warnings(), torch.random.fork_rng([]):
        warnings.simplefilter("ignore")
        try:
            kind(**arguments)
        except HoldfastError:
            raise
        except Exception:  # a stand-in is not sufficient; the run itself reports errors
            return


def unmade(value: Any) -> bool:
    """Whether a value has to be constructed first, or is a list with such values."""
    if isinstance(value, list):
        return any(map(unmade, value))
    return isinstance(value, Namespace | Mapping)


def imported(entry: Any) -> Any:
    """The class of an entry."""
    module, _, name = entry.class_path.rpartition(".")
    return getattr(import_module(module), name)
