"""Where a run's numbers come from."""

import hashlib
import json
import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from jsonargparse import namespace_to_dict
from lightning.pytorch import LightningDataModule, Trainer

from ..callbacks import Reset
from ..methods import TTAMethod
from ..methods.backbones import Normalise

PACKAGES = ("holdfast", "torch", "torchvision", "lightning", "timm", "numpy")
FILE = "provenance.json"


def describe(
    method: TTAMethod, data: LightningDataModule, trainer: Trainer, config: Any
) -> dict[str, Any]:
    """Versions, weights, normalisation, stream, resets, seed and device of a run."""
    stream = json.dumps(namespace_to_dict(config.data), sort_keys=True, default=str)
    attached: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    resets = [c for c in (method.recovery, *attached) if isinstance(c, Reset)]
    cuda = torch.cuda.is_available() and trainer.strategy.root_device.type == "cuda"
    return {
        "method": type(method).__name__,
        "stream": type(data).__name__,
        "stream_id": hashlib.sha256(stream.encode()).hexdigest()[:12],
        "seed": getattr(data, "seed", None),
        "torch_seed": config.seed_everything,
        "weights": method.source_hash,
        "normalisation": normalisation(method.backbone),
        "adapted_parameters": sum(p.numel() for p in method.parameters() if p.requires_grad),
        "optimizer": repr(method.optimizer),
        "resets": [repr(reset) for reset in resets],
        "device": torch.cuda.get_device_name() if cuda else f"{platform.machine()} CPU",
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "precision": trainer.precision,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def normalisation(backbone: torch.nn.Module) -> dict[str, list[float]] | None:
    """Mean and standard deviation of the backbone's first layer, if it normalises."""
    for layer in backbone.modules():
        if isinstance(layer, Normalise):
            return {"mean": layer.mean.flatten().tolist(), "std": layer.std.flatten().tolist()}
    return None


def write_provenance(folder: Path, *run: Any) -> None:
    """Write `describe(*run)` to FOLDER/provenance.json."""
    (folder / FILE).write_text(json.dumps(describe(*run), indent=1) + "\n")
