"""The cost of each method's step, relative to the bare network and to a step of Source."""

import argparse
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from statistics import median
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ... import HoldfastError, methods
from ...datamodules import Batch
from ...methods import TTAMethod
from ...methods.backbones.load import find_network
from ...methods.functional import softmax_entropy
from ..run.one_run import silence_lightning
from .meters import Job, clock, peak_memory, times

# Arguments with which no image is skipped, whatever an untrained network predicts, by row of the table.
ALL_SELECTED = {"entropy_factor": 1.01, "redundancy": 1.01}
WORKLOADS: dict[str, dict[str, Any]] = {
    "CoTTA": {"threshold": 0.0},
    "CoTTA-views": {"threshold": 2.0},
    "DeYO": {"filter_factor": 1.01, "drop": -1.01},
    "EATA": ALL_SELECTED,
    "ETA": ALL_SELECTED,
    "PeTTA": {"early_quota": False},
    "RDumb": ALL_SELECTED,
    "RoTTA": {"early_quota": False},
    "SAR": {"entropy_factor": 1.01},
    "SoTTA": {"confidence": 0.0},
}


def rows() -> list[str]:
    """The names of all methods, and of further workloads of them."""
    kinds = {name: getattr(methods, name) for name in methods.__all__ if name != "TTAMethod"}
    own = {n for n, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, TTAMethod)}
    return sorted(own | WORKLOADS.keys())


def step_costs(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """The row of each method; prints the refusal of a method that does not accept the network."""
    silence_lightning()
    names = args.methods or rows()
    if unknown := sorted({*names} - {*rows()}):
        raise HoldfastError(f"There is no method {unknown[0]}. Choose from {', '.join(rows())}.")
    layout = torch.channels_last if args.channels_last else torch.preserve_format
    images = torch.rand(args.batch, 3, args.size, args.size)
    images = images.to(args.device, memory_format=layout)
    for name in names:
        source, network = (find_network(args.backbone, args.size) for _ in range(2))
        kind: Callable[..., TTAMethod] = getattr(methods, name.partition("-")[0])
        try:
            method = kind(network.to(memory_format=layout), **WORKLOADS.get(name, {}))
        except HoldfastError as refusal:
            print(f"{name}: {refusal}", file=sys.stderr)
            continue
        method.to(args.device)
        if args.compile:
            method.backbone.compile()
        autocast = torch.autocast(args.device.type, torch.bfloat16) if args.bf16 else nullcontext()
        with autocast:
            reference = methods.Source(source).to(args.device)
            yield name, step_cost(method, reference, images, args.rounds, args.calls)


def step_cost(
    method: TTAMethod, source: TTAMethod, images: Tensor, rounds: int, calls: int
) -> dict[str, float]:
    """A method's row of the table; `calls` should cover the cycle of a memory."""
    bare = deepcopy(method)
    contiguous = deepcopy(method).to(memory_format=torch.contiguous_format)
    params = [parameter for parameter, _ in bare.parameters_with_source()]
    bare_step = adapted if params else forward
    method.fit([images])
    jobs: dict[str, Job] = {
        "forward": lambda: forward(bare, images),
        "bare": lambda: bare_step(bare, images),
        "contiguous": lambda: bare_step(contiguous, images),
        "step": lambda: method.adapt(images),
        "source": lambda: source.adapt(images),
        "reset": method.reset,
    }
    found = times(jobs, images.device, rounds, calls)
    middle = {name: median(values) for name, values in found.items()}
    # Minimum times: steps of Source are so short that other load changes their median.
    sources = min(found["step"]) / min(found["source"])
    peak = peak_memory(lambda: method.adapt(images), images.device)
    total = sum(parameter.numel() for parameter in method.backbone.parameters())
    return {
        "ms": round(1000 * middle["step"], 3),
        "forwards": round(middle["step"] / middle["forward"], 2),
        "bare": round(middle["step"] / middle["bare"], 3),
        "contiguous": round(middle["step"] / middle["contiguous"], 3),
        "sources": 1.0 if type(method) is type(source) else round(sources, 2),
        "reset": round(middle["reset"] / middle["step"], 4),
        "lightning": round(outside_steps(method, images, 4 * calls), 4),
        "adapts": round(sum(parameter.numel() for parameter in params) / total, 4),
        "state": saved_bytes(method) - saved_bytes(method.backbone),
        "peak_mib": round(peak / 2**20, 1),
    }


def forward(method: TTAMethod, images: Tensor) -> None:
    """A forward pass of the network."""
    with torch.no_grad():
        method.backbone(images)


def adapted(method: TTAMethod, images: Tensor) -> None:
    """A bare step of entropy minimisation with the method's optimizer."""
    loss = softmax_entropy(method.backbone(images)).mean()
    if method.optimizer is not None:
        method.optimizer.zero_grad()
        loss.backward()
        method.optimizer.step()


class StepShare(Callback):
    """Measures the share of a Trainer's time that a method's steps take, after the first batch."""

    def __init__(self, method: TTAMethod, device: torch.device) -> None:
        self.adapt, self.clock = method.adapt, clock(device)
        self.inside, self.ends = 0.0, list[float]()
        method.adapt = self.timed  # type: ignore[method-assign]

    def timed(self, images: Tensor) -> Tensor:
        start = self.clock()
        logits = self.adapt(images)
        self.inside += self.clock() - start
        return logits

    def on_test_batch_end(self, *_: Any) -> None:
        if not self.ends:  # the first batch includes the start-up
            self.inside = 0.0
        self.ends.append(self.clock())


def outside_steps(method: TTAMethod, images: Tensor, count: int) -> float:
    """The share of the time between batches, from the first to the last, that a Trainer adds."""
    zeros, device = torch.zeros(len(images), dtype=torch.int64), images.device
    batches = [Batch(images.cpu(), zeros, zeros, zeros)] * (count + 1)
    share = StepShare(method, device)
    trainer = Trainer(
        accelerator="gpu" if device.type == "cuda" else device.type,
        devices=[device.index or 0] if device.type == "cuda" else 1,
        callbacks=[share],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.test(method, DataLoader(batches, batch_size=None), verbose=False)  # type: ignore[arg-type]
    return 1 - share.inside / (share.ends[-1] - share.ends[0])


def saved_bytes(module: nn.Module) -> int:
    """The bytes of a module's `state_dict`."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()
