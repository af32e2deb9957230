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

from .. import HoldfastError
from .estimator import AccuracyEstimator
from .reset import Reset, arguments, callbacks

PACKAGES = ("holdfast", "torch", "torchvision", "lightning", "timm", "numpy", "imagecorruptions")


def provenance(trainer: Trainer, method: Any) -> dict[str, Any]:
    """What the run's numbers depend on, and on which machine, when and with what software it runs."""
    device = trainer.strategy.root_device
    return identity(trainer, method) | {
        "weights_from": getattr(method.backbone, "provenance", None),
        "normalisation": normalisation(method),
        "adapted_parameters": sum(p.numel() for p in method.parameters() if p.requires_grad),
        "torch_seed": torch.initial_seed(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu(),
        "devices": trainer.world_size,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {package: installed(package) for package in PACKAGES},
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


def identity(trainer: Trainer, method: Any) -> dict[str, Any]:
    """Method, weights, stream, resets, estimators, seed and precision: a run with others is another."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    stream = getattr(data, "identity", {"stream": type(data).__name__})
    attached = [c for c in callbacks(trainer) if isinstance(c, (Reset, AccuracyEstimator))]
    facts = {
        "method": type(method).__name__,
        "arguments": arguments(method),
        "backbone": type(method.backbone).__name__,
        "weights": method.source_hash,
        "optimizer": " ".join(repr(method.optimizer).split()),
        "resets": [repr(c) for c in (method.recovery, *attached) if isinstance(c, Reset)],
        "estimators": {
            type(c).__name__: arguments(c) for c in attached if isinstance(c, AccuracyEstimator)
        },
        **stream,
        "stream_id": digest(stream),
        "batch_size": getattr(data, "batch_size", None),
        "method_seed": method.seed,
        "precision": trainer.precision,
    }
    return json.loads(json.dumps(facts, default=str))


def check_same_run(found: dict[str, Any] | None, trainer: Trainer, method: Any) -> None:
    """Refuse to go on with a checkpoint whose `identity` is another; names the first difference."""
    if found is None:
        raise HoldfastError("the checkpoint was not made by a run of Holdfast: choose another.")
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


def normalisation(method: LightningModule) -> dict[str, list[float]] | None:
    """Mean and standard deviation in the first layer that has them, as `normalised` adds."""
    for layer in method.modules():
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
