"""The cost of each method's step and of each estimator in passes of the network."""

import argparse
import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer, timer

from ... import HoldfastError, methods
from ...callbacks import AETTA, GDE, AdvPerturb, RiskMonitor, SoftmaxScore
from ...methods import Tent, TTAMethod
from ...methods.backbones.load import find_network
from ...methods.functional import softmax_entropy

Job = Callable[[], object]
Rows = Iterator[tuple[str, dict[str, float]]]  # names, and numbers by column
_CALLS = 4  # steps per round


def rows(names: Sequence[str] = ()) -> dict[str, tuple[type[TTAMethod], dict[str, Any]]]:
    """The rows of the table by name: each method, or one of its workloads, with its arguments.

    names: only these, in this order. Raises HoldfastError if there is no such row.
    """
    kinds: dict[str, Any] = {k: v for k, v in vars(methods).items() if isinstance(v, type)}
    del kinds["TTAMethod"]
    known = {
        f"{name}-{end}" if end else name: (kind, arguments)
        for name, kind in sorted(kinds.items())
        for end, arguments in kind.workloads.items()
    }
    if unknown := sorted({*names} - known.keys()):
        raise HoldfastError(f"There is no method {unknown[0]}. Choose from {', '.join(known)}.")
    return {name: known[name] for name in names or known}


def step_costs(args: argparse.Namespace) -> Rows:
    """The row of each method; prints the refusal of a method that does not accept the network."""
    layout = torch.channels_last if args.channels_last else torch.preserve_format
    images = torch.rand(args.batch, 3, args.size, args.size)
    images = images.to(args.device, memory_format=layout)
    for name, (kind, arguments) in rows(args.methods or ()).items():
        source, network = (find_network(args.backbone, args.size) for _ in range(2))
        try:
            method = kind(network.to(memory_format=layout), **arguments)
        except HoldfastError as refusal:
            print(f"{name}: {refusal}", file=sys.stderr)
            continue
        method.to(args.device)
        if args.compile:
            method.backbone.compile()
        autocast = torch.autocast(args.device.type, torch.bfloat16) if args.bf16 else nullcontext()
        with autocast:
            reference = methods.Source(source).to(args.device)
            yield name, _step_cost(method, reference, images, args.rounds)


def _step_cost(
    method: TTAMethod, source: TTAMethod, images: Tensor, rounds: int
) -> dict[str, float]:
    bare = deepcopy(method)
    contiguous = deepcopy(method).to(memory_format=torch.contiguous_format)
    adapting = [parameter for parameter, _ in bare.parameters_with_source()]
    bare_step = _minimise_entropy if adapting else _forward
    method.fit([images])
    jobs: dict[str, Job] = {
        "reset": method.reset,  # the first, so that the state is that after steps
        "forward": partial(_forward, bare, images),
        "bare": partial(bare_step, bare, images),
        "contiguous": partial(bare_step, contiguous, images),
        "step": partial(method.adapt, images),
        "source": partial(source.adapt, images),
    }
    turns = _times(jobs, images.device, rounds, _CALLS)
    medians = {name: median(times) for name, times in turns.items()}
    # Minimum times: steps of Source are so short that other load changes their median.
    sources = min(turns["step"]) / min(turns["source"])
    for _ in range(3 * _CALLS):  # until memories are full
        method.adapt(images)
    total = sum(parameter.numel() for parameter in method.backbone.parameters())
    return {
        "ms": round(1000 * medians["step"], 3),
        "forwards": round(medians["step"] / medians["forward"], 2),
        "bare": round(medians["step"] / medians["bare"], 3),
        "contiguous": round(medians["step"] / medians["contiguous"], 3),
        "sources": 1.0 if type(method) is type(source) else round(sources, 2),
        "reset": round(medians["reset"] / medians["step"], 4),
        "adapts": round(sum(parameter.numel() for parameter in adapting) / total, 4),
        "state": _saved_bytes(method) - _saved_bytes(method.backbone),
        **_peak_memory(jobs["step"], images.device),
    }


def _forward(method: TTAMethod, images: Tensor) -> None:
    with torch.no_grad():
        method.backbone(images)


def _minimise_entropy(method: TTAMethod, images: Tensor) -> None:
    """A bare step of entropy minimisation with the method's optimizer."""
    loss = softmax_entropy(method.backbone(images)).mean()
    if method.optimizer is not None:
        method.optimizer.zero_grad()
        loss.backward()
        method.optimizer.step()


def _saved_bytes(module: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()


def _peak_memory(job: Job, device: torch.device) -> dict[str, float]:
    """The memory in MiB that a job adds at its peak, where the device counts it."""
    if device.type == "cpu":
        return {}
    torch.accelerator.reset_peak_memory_stats()
    before = torch.accelerator.memory_allocated()
    job()
    return {"peak_mib": round((torch.accelerator.max_memory_allocated() - before) / 2**20, 1)}


def estimator_costs(args: argparse.Namespace) -> Rows:
    method = Tent(find_network(args.backbone, args.size)).to(args.device)
    images = torch.rand(args.batch, 3, args.size, args.size, device=args.device)
    estimators = {
        "AETTA": AETTA(),
        "AETTA, bfloat16": AETTA(bfloat16=True),
        "SoftmaxScore": SoftmaxScore(),
        "GDE": GDE(),
        "AdvPerturb": AdvPerturb(),
    }
    # A monitor without source images takes its reference from the first 40 images.
    logits, monitor = method.predict(images), RiskMonitor(start=-(-40 // args.batch))
    jobs: dict[str, Job] = {"forward pass": partial(method.predict, images)}
    jobs |= {name: partial(kind.watch, method, images) for name, kind in estimators.items()}
    jobs["RiskMonitor"] = partial(monitor.after_step, logits)
    taken = seconds(jobs, args.device, args.rounds)
    for name, duration in taken.items():
        forwards = duration / taken["forward pass"]
        yield name, {"ms": round(1000 * duration, 3), "forwards": round(forwards, 2)}


def _times(
    jobs: Mapping[str, Job], device: torch.device, rounds: int, calls: int = 1
) -> dict[str, list[float]]:
    """Seconds per call of each job in each round; the jobs alternate, after one round to warm up.

    On a CPU it is processor time, which excludes other processes; elsewhere the time until all queued work
    is done.
    """
    clock = time.process_time if device.type == "cpu" else timer
    threads = torch.get_num_threads()
    timers = {
        name: Timer("job()", globals={"job": job}, timer=clock, num_threads=threads)
        for name, job in jobs.items()
    }
    turns = [
        {n: timer.timeit(calls).mean for n, timer in timers.items()} for _ in range(rounds + 1)
    ]
    return {name: [turn[name] for turn in turns[1:]] for name in jobs}


def seconds(jobs: Mapping[str, Job], device: torch.device, rounds: int) -> dict[str, float]:
    """The median over rounds of the seconds of each job."""
    return {name: median(turns) for name, turns in _times(jobs, device, rounds).items()}
