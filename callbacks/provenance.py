"""Where a run's numbers come from."""

import hashlib
import json
import os
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.optim import Optimizer

from .. import HoldfastError
from .estimator import AccuracyEstimator
from .protocol import Adapting, callbacks_of, data_name, method_of, stream_of
from .recovery import Recovery, arguments

PACKAGES = ("holdfast", "torch", "torchvision", "lightning", "timm", "numpy", "imagecorruptions")


def provenance(trainer: Trainer, module: LightningModule) -> dict[str, Any]:
    """What the run's numbers depend on, and on which machine, when and with what software it runs."""
    device, method = trainer.strategy.root_device, method_of(module)
    return identity(trainer, method) | {
        "weights_from": getattr(method.backbone, "provenance", None),
        "normalisation": normalisation(module),
        "parameters": sum(p.numel() for p in method.backbone.parameters()),
        "adapted_parameters": sum(p.numel() for p in module.parameters() if p.requires_grad),
        "skipped_layers": list(method.skipped_layers),
        "torch_seed": torch.initial_seed(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu(),
        "devices": trainer.world_size,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {package: installed(package) for package in PACKAGES},
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


def identity(trainer: Trainer, method: Adapting) -> dict[str, Any]:
    """Method, weights, stream, resets, estimators, seed and precision: a run with others is another."""
    stream, attached = stream_of(trainer), callbacks_of(trainer)
    recoveries = [c for c in (method.recovery, *attached) if isinstance(c, Recovery)]
    estimators = [c for c in attached if isinstance(c, AccuracyEstimator)]
    pixels = {"stream": data_name(trainer)} if stream is None else stream.identity
    facts = {
        **method_identity(method),
        "resets": [recovery_settings(recovery) for recovery in recoveries],
        "estimators": {c.name: arguments(c) for c in estimators},
        **pixels,
        "stream_id": digest(pixels),
        "batch_size": None if stream is None else stream.batch_size,
        "method_seed": method.seed,
        "precision": trainer.precision,
    }
    return plain(facts)


def method_identity(method: Adapting) -> dict[str, Any]:
    """Method, weights and optimizer, with their settings."""
    return {
        "method": type(method).__name__,
        "arguments": arguments(method),
        "backbone": type(method.backbone).__name__,
        "weights": method.source_hash,
        "optimizer": optimizer_settings(method.optimizer),
    }


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives them back, so that two can be compared."""
    return json.loads(json.dumps(facts, default=str))


def optimizer_settings(optimizer: Optimizer | None) -> dict[str, Any] | None:
    """Class and settings, {"class": "SGD", "lr": 0.001, ...}, that it was made with."""
    if optimizer is None:
        return None
    return {"class": type(optimizer).__name__, **optimizer.defaults}


def recovery_settings(recovery: Recovery) -> dict[str, Any]:
    """Class and arguments: {"class": "PeriodicReset", "every": 1000}."""
    return {"class": type(recovery).__name__, **arguments(recovery)}


def check_same_run(found: dict[str, Any] | None, trainer: Trainer, method: Adapting) -> None:
    """Refuse to go on with a checkpoint whose `identity` is another; names the first difference."""
    if found is None:
        raise HoldfastError(
            "no StreamCheckpoint made this checkpoint, so no run can go on from it: choose another."
        )
    if isinstance(found.get("optimizer"), str):  # its repr, until mappings took its place
        raise HoldfastError(
            "the checkpoint is of an earlier version of Holdfast: go on with that version, or begin a new "
            "run in another folder."
        )
    for key, value in identity(trainer, method).items():
        if found.get(key) != value:
            raise HoldfastError(
                f"the checkpoint is of another run, whose {key} is {found.get(key)}, not {value}: go on "
                "with the settings it was begun with, or begin a new run in another folder."
            )


def digest(facts: dict[str, Any]) -> str:
    """12 hex digits that stand for these facts."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def normalisation(network: nn.Module) -> dict[str, list[float]] | None:
    """Mean and standard deviation in the first layer that has them, as `normalised` adds."""
    for layer in network.modules():
        mean, std = getattr(layer, "mean", None), getattr(layer, "std", None)
        if isinstance(mean, torch.Tensor) and isinstance(std, torch.Tensor):
            return {"mean": mean.flatten().tolist(), "std": std.flatten().tolist()}
    return None


def cpu() -> str:
    """The processor's architecture and number of cores."""
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def installed(package: str) -> str | None:
    """The version of a package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
