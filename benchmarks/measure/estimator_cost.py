"""Measure the time of each per-batch estimator, in plain forward passes."""

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from ... import HoldfastError
from ...callbacks import (
    AETTA,
    GDE,
    AccuracyEstimator,
    AdvPerturb,
    Reference,
    RiskMonitor,
    SoftmaxScore,
    Suitability,
)
from ...callbacks.estimators.dropout import DropoutPasses
from ...command_parser import Parser
from ...methods import Tent, TTAMethod
from ...methods.backbones.load import find_network
from .meters import Clock


def costs(method: TTAMethod, images: Tensor, passes: int, repeats: int) -> dict[str, float]:
    """Seconds of a plain forward pass, and the cost of one estimate per estimator as multiples of it."""
    watchers: dict[str, AccuracyEstimator] = {
        "AETTA": AETTA(passes=passes),
        "AETTA, bfloat16": AETTA(passes=passes, bfloat16=True),
        "SoftmaxScore": SoftmaxScore(),
        "GDE": GDE(),
        "AdvPerturb": AdvPerturb(),
    }
    jobs: dict[str, Callable[[], object]] = {"plain": lambda: method.predict(images)}
    jobs |= {name: lambda w=w: w.watch(method, images) for name, w in watchers.items()}  # type: ignore[misc]
    logits = method.predict(images)
    reference = Reference.fit(*made_up(logits.shape[1]))
    monitors = [RiskMonitor(reference=reference), Suitability(reference=reference)]
    jobs |= {m.name: lambda m=m: m.note(logits) for m in monitors}  # type: ignore[misc]
    jobs["AETTA, naive"] = lambda: naive(method, images, passes)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    clock = Clock(images.device)
    for repeat in range(repeats + 1):
        # Jobs alternate, so that other load on the machine affects all of them equally.
        for name, job in jobs.items():
            start = clock()
            job()
            if repeat:  # the first round warms up
                seconds[name].append(clock() - start)
    plain = median(seconds["plain"])
    return {name: plain if name == "plain" else median(s) / plain for name, s in seconds.items()}


def made_up(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic logits [n,C] of a source model and labels [n] for a reference."""
    random = np.random.default_rng(0)
    labels, logits = random.integers(0, classes, 400), random.normal(size=(400, classes))
    logits[np.arange(400), labels] += 4
    return logits, labels


@torch.no_grad()
def naive(method: TTAMethod, images: Tensor, passes: int) -> None:
    """Run AETTA's prediction and dropout passes, each through the whole network."""
    network = method.backbone
    method.predict(images)
    with ExitStack() as hooks:
        for name in method.stages():
            layer = network.get_submodule(name)
            hooks.enter_context(layer.register_forward_hook(lambda _, __, x: F.dropout(x, 0.2)))
        for _ in range(passes):
            network(images)


@torch.no_grad()
def fewest_passes(method: TTAMethod, images: Tensor, passes: int) -> float:
    """The cost of the prediction and the passes in forward passes, counting only multiplications."""
    random = method.generator("cost")
    share = DropoutPasses(method.predictor, method.stages())
    with FlopCounterMode(display=False) as whole, share.record(images):
        method.predict(images)
    with FlopCounterMode(display=False) as rest:
        share(images, 1, 0.2, random)
    return 1 + passes * rest.get_total_flops() / whole.get_total_flops()


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators cost", __doc__, "--passes 5")
    parser.add(
        "--backbone", default="glyphs", help="network such as glyphs or torchvision/resnet18"
    )
    parser.add("--size", type=int, default=32, help="pixels per side (default: 32)")
    parser.add("--batch-size", type=int, default=64)
    parser.add("--passes", type=int, default=10)
    parser.add("--repeats", type=int, default=15)
    parser.add("--device", default="cpu")
    return parser


def main(argv: list[str]) -> int:
    """Measure the costs and print them."""
    args = parser().parse_args(argv)
    if min(args.size, args.batch_size, args.passes, args.repeats) < 1:
        raise HoldfastError("--size, --batch-size, --passes and --repeats must be at least 1.")
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        raise HoldfastError(
            f"--device {args.device} is unavailable: PyTorch finds no GPU. Remove the option."
        )
    method = Tent(find_network(args.backbone, args.size)).to(args.device)
    images = torch.rand(args.batch_size, 3, args.size, args.size, device=args.device)
    found = costs(method, images, args.passes, args.repeats)
    print(f"{args.backbone}, {args.batch_size} images of {args.size} x {args.size}, {args.device}:")
    print(
        f"a plain forward pass takes {1000 * found.pop('plain'):.1f} ms; one estimate (AETTA with "
        f"{args.passes} passes) takes"
    )
    for name, multiple in found.items():
        print(f"  {name:18s} {multiple:5.2f} forward passes")
    fewest = fewest_passes(method, images, args.passes)
    print(
        "Dropout starts after the network's first stage: counting only multiplications, the prediction\n"
        f"and {args.passes} passes from that stage cost {fewest:.2f} forward passes."
    )
    return 0
