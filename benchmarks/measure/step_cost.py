"""`holdfast step-cost`: measure the cost of each method's step relative to the bare network."""

import argparse
import io
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from lightning.pytorch import Callback, LightningDataModule
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ... import HoldfastError, methods
from ...command_parser import Parser
from ...datamodules import Batch
from ...files import write_json
from ...methods import TTAMethod
from ...methods.backbones.load import find_network
from ...methods.functional import softmax_entropy
from ...methods.parts.views import random_view
from ..run.one_run import fixed_threads, silence_lightning
from .meters import Clock, PeakMemory, quiet_trainer, seconds

EXPORTED = [getattr(methods, name) for name in methods.__all__]
METHODS = [kind for kind in EXPORTED if isinstance(kind, type) and issubclass(kind, TTAMethod)]
WORKLOADS: dict[str, Callable[[nn.Module], TTAMethod]] = {
    kind.__name__ + suffix: partial(kind, **settings)
    for kind in METHODS
    if kind is not TTAMethod
    for suffix, settings in kind.workloads.items()
}


class Cost(NamedTuple):
    """Seconds per call (medians over rounds), and bytes."""

    step: float  # one `adapt`
    sources: float  # the same relative to steps of Source, interleaved: minimum times over rounds
    forward: float  # the network alone
    bare: float  # forward, entropy and backward for the same parameters and optimizer
    contiguous: float  # the same with the network in contiguous memory format
    reset: float
    peak: int | None  # additional bytes during a step
    lightning: float  # share of a Trainer's time per batch outside `adapt`
    adapts: float  # adapted share of the network's parameters
    state: int  # bytes of a checkpoint in addition to the network


class Repeated(LightningDataModule):
    """A data module that yields the same batch `count` times."""

    def __init__(self, images: Tensor, count: int) -> None:
        super().__init__()
        zeros = torch.zeros(len(images), dtype=torch.int64)
        self.batches = [Batch(images, zeros, zeros, zeros)] * count

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.batches, batch_size=None)  # type: ignore[arg-type]


class LoopTime(Callback):
    """Measures the time between the ends of successive batches, and the share of `adapt` in it."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.adapting, self.ends = clock, 0.0, [0.0]

    def timed(self, adapt: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        start = self.clock()
        logits = adapt(images)
        self.adapting += self.clock() - start
        return logits

    def on_test_batch_end(self, *_: Any) -> None:
        if self.ends == [0.0]:  # the first batch includes the start-up
            self.ends, self.adapting = [], 0.0
        self.ends.append(self.clock())

    def share_of_lightning(self) -> float:
        return 1 - self.adapting / (self.ends[-1] - self.ends[0])


def measure(method: TTAMethod, source: TTAMethod, images: Tensor, rounds: int, calls: int) -> Cost:
    """Time a method and Source alternately on a batch; `calls` should cover the cycle of a memory."""
    bare = deepcopy(method)
    contiguous = deepcopy(method).to(memory_format=torch.contiguous_format)
    params = [parameter for parameter, _ in bare.parameters_with_source()]

    def forward(method: TTAMethod) -> None:
        with torch.no_grad():
            method.backbone(images)

    def bare_step(method: TTAMethod) -> None:
        loss = softmax_entropy(method.backbone(images)).mean()
        if method.optimizer is not None:
            method.optimizer.zero_grad()
            loss.backward()
            method.optimizer.step()

    method.fit([images])
    names = ("forward", "bare", "contiguous", "step", "source", "reset")
    times: dict[str, list[float]] = {name: [] for name in names}
    bare_work = bare_step if params else forward
    work: dict[str, Callable[[], object]] = {
        "forward": partial(forward, bare),
        "bare": partial(bare_work, bare),
        "contiguous": partial(bare_work, contiguous),
        "step": lambda: method.adapt(images),
        "source": lambda: source.adapt(images),
    }
    for _ in range(rounds + 1):  # the first round warms up
        for name, task in work.items():
            times[name].append(seconds(task, images.device, calls=calls))
        times["reset"].append(seconds(method.reset, images.device, calls=3))
    with PeakMemory(images.device) as peak:
        method.adapt(images)
    loop = LoopTime(Clock(images.device))
    method.adapt = partial(loop.timed, method.adapt)  # type: ignore[method-assign]
    quiet_trainer(images.device, loop).test(
        method, datamodule=Repeated(images.cpu(), 4 * calls + 1), verbose=False
    )
    least_source = min(times.pop("source")[1:])
    is_source = type(method) is type(source)
    medians = {name: median(values[1:]) for name, values in times.items()}
    total = sum(parameter.numel() for parameter in method.backbone.parameters())
    return Cost(
        **medians,
        sources=1.0 if is_source else min(times["step"][1:]) / least_source,
        peak=peak.bytes,
        lightning=loop.share_of_lightning(),
        adapts=sum(parameter.numel() for parameter in params) / total,
        state=saved_bytes(method) - saved_bytes(method.backbone),
    )


def saved_bytes(module: nn.Module) -> int:
    """The bytes of a module's `state_dict`."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()


def separate_views(method: methods.CoTTA, images: Tensor) -> None:
    """CoTTA's augmented views in separate passes, for comparison."""
    generator = method.generator("views")
    with torch.no_grad():
        for _ in range(method.views):
            method.teacher(random_view(images, generator))


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("step-cost", __doc__, "--methods Tent RDumb --batch 64")
    parser.add("--backbone", default="resnet18")
    parser.add("--size", type=int, default=224, help="pixels per side (default: 224)")
    parser.add("--batch", type=int, default=16)
    parser.add("--methods", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add("--rounds", type=int, default=3)
    parser.add("--calls", type=int, default=4, help="steps per round (default: 4)")
    parser.add("--threads", type=int, default=1)
    parser.add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.flag("--channels-last", "images, too")
    parser.flag("--compile", "compile the backbone with torch.compile")
    parser.flag("--bf16", "use autocast to bfloat16")
    parser.add("--json", type=Path, metavar="FILE", help="also write the numbers to this file")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Measure and print one row per workload."""
    args = parser().parse_args(argv)
    silence_lightning()
    with fixed_threads(args.threads):
        return measure_all(args)


def measure_all(args: argparse.Namespace) -> int:
    """Measure and print the table for these options."""
    torch.manual_seed(0)
    device = torch.device(args.device)
    layout = torch.channels_last if args.channels_last else torch.preserve_format
    images = torch.rand(args.batch, 3, args.size, args.size).to(device, memory_format=layout)
    setting = (
        f"{args.backbone}, {args.batch} images of {args.size} x {args.size}, {device}, "
        f"{args.threads} thread(s), torch {torch.__version__}"
    )
    print(setting)
    print(
        "method        ms/step  x forward  x bare step  x contiguous  reset  peak MiB  Lightning  "
        "adapts  state KiB"
    )
    kept: dict[str, dict[str, float]] = {}
    for name in args.methods:
        backbone = find_network(args.backbone, args.size).to(memory_format=layout)
        try:
            method = WORKLOADS[name](backbone).to(device)
        except HoldfastError as refusal:
            print(f"{name:12} {refusal}")
            continue
        if args.compile:
            method.backbone.compile()
        autocast = torch.autocast(device.type, torch.bfloat16) if args.bf16 else nullcontext()
        with autocast:
            source = methods.Source(find_network(args.backbone, args.size)).to(device)
            cost = measure(method, source, images, args.rounds, args.calls)
        peak = "" if cost.peak is None else f"{cost.peak / 2**20:.0f}"
        print(
            f"{name:12} {1000 * cost.step:8.1f} {cost.step / cost.forward:10.2f} "
            f"{cost.step / cost.bare:12.3f} {cost.step / cost.contiguous:13.3f} "
            f"{cost.reset / cost.step:6.2%} {peak:>9} "
            f"{cost.lightning:10.2%} {cost.adapts:7.2%} {cost.state / 1024:10.0f}",
            flush=True,
        )
        kept[name] = {
            "forwards": round(cost.step / cost.forward, 2),
            "sources": round(cost.sources, 2),
            "adapts": round(cost.adapts, 4),
            "state": cost.state,
        }
        if name == "CoTTA-views" and isinstance(method, methods.CoTTA):
            singly = seconds(partial(separate_views, method, images), device, calls=1)
            batched = seconds(partial(method.predict, images), device, calls=1)
            print(f"  augmented views: {batched / singly:.2f} x separate passes", flush=True)
    if args.json is not None:
        write_json(args.json, {"setting": setting, "methods": kept})
    return 0
