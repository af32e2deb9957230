"""Where a run's numbers come from: method, weights, stream, resets, and the environment it ran in."""

import hashlib
import json
import os
import platform
import subprocess
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import nn

from .. import HoldfastError
from ..files import first_difference, jsonable, read_json, without, write_json
from ..run_folder import PROVENANCE
from .deadline import OverheadBudget
from .estimator import AccuracyEstimator
from .protocols import Recorded, callbacks_of, method_of, stream_of
from .recovery import Recovery, arguments

_PACKAGES = ("holdfast", "torch", "torchvision", "lightning", "timm", "numpy", "imagecorruptions")
# What a commit is for: changed results and pages, which commands write, do not count.
_RESULTS = (":!benchmarks/papers/*/results/*", ":!benchmarks/leaderboard/entries/*")
CODE = ("--", ".", ":!*.md", ":!docs", ":!tests", *_RESULTS)


# ---- what a run is --------------------------------------------------------------------------------


def provenance(trainer: Trainer, module: LightningModule) -> dict[str, Any]:
    """Everything on which the run's numbers depend, and its machine, date and software."""
    where = environment(trainer.strategy.root_device, trainer.world_size)
    method, stream = method_of(module), stream_of(trainer)
    return identity(trainer, method) | {
        "weights_from": getattr(method.backbone, "provenance", None),
        "normalisation": normalisation(module),
        "parameters": sum(p.numel() for p in method.backbone.parameters()),
        "adapted_parameters": sum(p.numel() for p in module.parameters() if p.requires_grad),
        "skipped_layers": list(method.skipped_layers),
        "torch_seed": torch.initial_seed(),
        **where,
        "setting_id": stream_digest(stream.seedless(stream.identity), "seed") if stream else None,
        "setting": list(stream.identity) if stream else [],
        "started": _now(),
        "ran_on": [{"step": 0, "images": 0, **where}],
    }


def identity(trainer: Trainer, method: Recorded) -> dict[str, Any]:
    """The identity of a run: method, weights, stream, resets, estimators, seed and precision."""
    stream, attached = stream_of(trainer), callbacks_of(trainer)
    pixels = {"stream": _data_name(trainer)} if stream is None else stream.identity
    estimators = {c.name: arguments(c) for c in attached if isinstance(c, AccuracyEstimator)}
    budgets = [arguments(c) for c in attached if isinstance(c, OverheadBudget)]
    return jsonable(
        ({"budgets": budgets} if budgets else {})
        | {
            **method_identity(method, *(c for c in attached if isinstance(c, Recovery))),
            "estimators": estimators,
            **pixels,
            "stream_id": stream_digest(pixels),
            "batch_size": None if stream is None else stream.batch_size,
            "method_seed": method.seed,
            "precision": trainer.precision,
        }
    )


def method_identity(method: Recorded, *attached: Recovery) -> dict[str, Any]:
    """Method, weights, optimizer and resets, with their settings: {"class": "SGD", "lr": 0.001, ...}."""
    resets = [r for r in (method.recovery, *attached) if isinstance(r, Recovery)]
    optimizer = method.optimizer
    return {
        "method": type(method).__name__,
        "arguments": arguments(method),
        "backbone": type(method.backbone).__name__,
        "weights": method.source_hash,
        "optimizer": optimizer and {"class": type(optimizer).__name__, **optimizer.defaults},
        "resets": [{"class": type(reset).__name__, **arguments(reset)} for reset in resets],
    }


def check_same(stored: dict[str, Any], identity: dict[str, Any], what: str, remedy: str) -> None:
    """Raise HoldfastError, with the first difference, if a stored identity is another one.

    >>> check_same({"weights": "a"}, {"weights": "b"}, "state belongs to another run", "Use its weights.")
    Traceback (most recent call last):
    holdfast.HoldfastError: The state belongs to another run: weights is a, not b. Use its weights.
    """
    if (known := {key: stored.get(key) for key in identity}) != identity:
        setting, value, expected = first_difference(known, identity)
        raise HoldfastError(f"The {what}: {setting} is {value}, not {expected}. {remedy}")


def normalisation(network: nn.Module) -> dict[str, list[float]] | None:
    """Mean and standard deviation of the first layer that has them, which `normalised` adds."""
    for layer in network.modules():
        mean, std = getattr(layer, "mean", None), getattr(layer, "std", None)
        if isinstance(mean, torch.Tensor) and isinstance(std, torch.Tensor):
            return {"mean": mean.flatten().tolist(), "std": std.flatten().tolist()}
    return None


def _data_name(trainer: Trainer) -> str:
    """The class of the Trainer's data, or of the data sets in its loaders."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    if data is not None:
        return type(data).__name__
    loaders = CombinedLoader(trainer.test_dataloaders, "sequential").flattened
    sets = [getattr(loader, "dataset", loader) for loader in loaders]
    return ", ".join(type(data_set).__name__ for data_set in sets)


def digest(facts: dict[str, Any]) -> str:
    """A hash of these facts, 12 hex digits."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stream_digest(identity: dict[str, Any], *left_out: str) -> str:
    """A hash of a stream's identity without these keys.

    It is the same as in earlier versions: `order` follows from the other facts, and `precorrupted` counts
    under its earlier name.
    """
    facts = without(identity, "order", *left_out)
    if "precorrupted" in facts:
        facts["finished"] = facts.pop("precorrupted")
    return digest(facts)


# ---- where it ran ---------------------------------------------------------------------------------


def environment(device: torch.device, devices: int = 1) -> dict[str, Any]:
    """Device, threads and software: rounding depends on them, and adaptation amplifies it."""
    instructions = torch.backends.cpu.get_cpu_capability()
    cpu = f"{platform.machine()} CPU ({instructions}), {os.cpu_count()} cores"
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "devices": devices,
        "processor": processor(),
        "instructions": instructions,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {package: installed(package) for package in _PACKAGES},
        "commit": commit(),
    }


def now_on(folder: Path, trainer: Trainer, step: int, images: int) -> None:
    """Note in a run's provenance that it is resumed at this step, when, and in which environment.

    "ran_on" lists the environments with the step and image that each begins at: those of discarded steps
    are dropped. Warns if the environment has changed.
    """
    path = folder / PROVENANCE
    where = environment(trainer.strategy.root_device, trainer.world_size)
    facts = read_json(path)
    ran_on = [entry for entry in facts["ran_on"] if entry["step"] < step]
    changed = _differences(ran_on[-1] if ran_on else where, where)
    if changed:
        rank_zero_warn(
            f"the run resumes at step {step:,} in another environment ({', '.join(changed)}), so its "
            "results may differ by rounding from an uninterrupted run's. provenance.json lists both."
        )
    if changed or not ran_on:
        ran_on.append({"step": step, "images": images, **where})
    resumed = [*facts.get("resumed", []), {"images": images, "time": _now()}]
    write_json(path, facts | {"resumed": resumed, "ran_on": ran_on})


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two environments, in words: "threads 2, not 1"."""
    one, other = ({**entry, **entry["versions"], "versions": None} for entry in (before, after))
    return [f"{key} {new}, not {one.get(key)}" for key, new in other.items() if new != one.get(key)]


def _now() -> str:
    """The time, in UTC and ISO format."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@cache
def processor() -> str:
    """The processor's model, if the system reports it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def commit() -> str | None:
    """The commit of a clone, with "-dirty" where code was changed; None for an installed package."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        return git("rev-parse", "HEAD") + ("-dirty" if git("diff", "HEAD", "--stat", *CODE) else "")
    return None


def installed(package: str) -> str | None:
    """The version of a package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
