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

from .reset import Reset, callbacks

PACKAGES = ("holdfast", "torch", "torchvision", "lightning", "timm", "numpy", "imagecorruptions")


def provenance(trainer: Trainer, method: Any) -> dict[str, Any]:
    """Method, weights, normalisation, stream, resets, seeds, device and versions of a run."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    stream = getattr(data, "identity", {"stream": type(data).__name__})
    resets = [c for c in (method.recovery, *callbacks(trainer)) if isinstance(c, Reset)]
    device = trainer.strategy.root_device
    return {
        "method": type(method).__name__,
        "backbone": type(method.backbone).__name__,
        "weights": method.source_hash,
        "weights_from": getattr(method.backbone, "provenance", None),
        "normalisation": normalisation(method),
        "adapted_parameters": sum(p.numel() for p in method.parameters() if p.requires_grad),
        "optimizer": " ".join(repr(method.optimizer).split()),
        "resets": [repr(reset) for reset in resets],
        **stream,
        "stream_id": digest(stream),
        "batch_size": getattr(data, "batch_size", None),
        "torch_seed": torch.initial_seed(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu(),
        "devices": trainer.world_size,
        "threads": torch.get_num_threads(),
        "precision": trainer.precision,
        "python": platform.python_version(),
        "versions": {package: installed(package) for package in PACKAGES},
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


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
