"""Restrict what the configuration parser may import, call and read, as files may be untrusted.

This is the only module that uses private functions of jsonargparse, as of version KNOWN.
"""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
import yaml
from jsonargparse import _actions as actions
from jsonargparse import _loaders_dumpers as loaders
from jsonargparse import _typehints as typehints
from lightning.fabric.plugins import CheckpointIO, ClusterEnvironment
from lightning.fabric.plugins import Precision as FabricPrecision
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.callbacks import LambdaCallback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins import LayerSync, Precision
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import Strategy
from torchmetrics import Metric

from ... import HoldfastError
from ...class_paths import NotInstalled, check_module, is_users
from ...datamodules import ImageSource
from ...files import check_yaml
from ...methods.backbones.user_network import makes

KNOWN = "4.53"
KINDS = (
    *(torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, Metric),
    *(torch.utils.data.Dataset, pl.LightningDataModule, pl.Callback, pl.Trainer, ImageSource),
    *(Logger, Profiler, Accelerator, Strategy, CheckpointIO, ClusterEnvironment, LayerSync),
    *(Precision, FabricPrecision),
)


@contextmanager
def guarded() -> Iterator[None]:
    """Let the parser import and call only what a configuration may name, and refuse YAML bombs.

    Raises:
        HoldfastError: if the configuration names anything else.
    """
    refused: list[tuple[str, HoldfastError]] = []
    find, read = typehints.import_object, loaders.yaml_load

    def found(name: str, *more: Any, **options: Any) -> Any:
        if not isinstance(name, str) or "." not in name or options.get("check_path") is False:
            return find(name, *more, **options)
        try:
            check_module(name)
            thing = find(name, *more, **options)
            check_kind(name, thing)
        except HoldfastError as error:
            if not isinstance(
                error, NotInstalled
            ):  # the parser tries any dotted name as a class path
                refused.append((name, error))
            raise ImportError(str(error)) from error
        return thing

    def loaded(text: str) -> Any:
        try:
            check_yaml(text)
        except ValueError as error:
            refused.append(("", HoldfastError(f"Cannot read the configuration: {error}.")))
            raise yaml.YAMLError(str(error)) from error
        return read(text)

    with ExitStack() as stack:
        stack.callback(loaders.loaders.update, yaml=loaders.loaders["yaml"])
        loaders.loaders["yaml"] = loaded
        for module, name, ours in (
            *((module, "import_object", found) for module in (typehints, actions)),
            (loaders, "yaml_load", loaded),
        ):
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, ours)
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:
            if why := [sentence for name, sentence in refused if name in str(error)]:
                raise why[-1] from error
            raise


@contextmanager
def networks_by_full_path() -> Iterator[None]:
    """Do not look up the name of a backbone among torch's 800 network classes."""
    listed = typehints.get_all_subclass_paths

    def paths(cls: Any, **kinds: bool) -> list[str]:
        return [] if cls is torch.nn.Module else listed(cls, **kinds)

    typehints.get_all_subclass_paths = paths  # type: ignore[assignment]
    try:
        yield
    finally:
        typehints.get_all_subclass_paths = listed


def check_kind(name: str, thing: Any) -> None:
    """Refuse everything except classes of KINDS and functions that return networks.

    Functions of the user's own modules are allowed.

    Raises:
        HoldfastError: states what a configuration may name.
    """
    if inspect.isclass(thing) and issubclass(thing, LambdaCallback):
        raise HoldfastError(
            f"{name} is not allowed in a configuration because it calls arbitrary functions. Write a "
            "custom Callback and pass its class."
        )
    if not (makes(thing, *KINDS) or is_users(thing)):
        raise HoldfastError(
            f"{name} is not allowed in a configuration. Pass the class of a network, method, stream or "
            f"callback, or allow your own module with --allow {name.partition('.')[0]}."
        )
