"""The time of each estimator, in plain forward passes."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from ... import in_range
from ...callbacks import AETTA, GDE, AccuracyEstimator, AdvPerturb, RiskMonitor, SoftmaxScore
from ...methods import Tent, TTAMethod
from ...methods.backbones.load import find_network
from .meters import Job, seconds


def estimator_costs(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """The row of each estimator."""
    in_range(1, passes=args.passes)
    method = Tent(find_network(args.backbone, args.size)).to(args.device)
    images = torch.rand(args.batch, 3, args.size, args.size, device=args.device)
    estimators: dict[str, AccuracyEstimator] = {
        "AETTA": AETTA(passes=args.passes),
        "AETTA, bfloat16": AETTA(passes=args.passes, bfloat16=True),
        "SoftmaxScore": SoftmaxScore(),
        "GDE": GDE(),
        "AdvPerturb": AdvPerturb(),
    }
    # A monitor without source images takes its reference from the first 40 images.
    logits, monitor = method.predict(images), RiskMonitor(start=-(-40 // args.batch))
    jobs: dict[str, Job] = {"forward pass": partial(method.predict, images)}
    jobs |= {name: partial(own.watch, method, images) for name, own in estimators.items()}
    jobs["RiskMonitor"] = partial(monitor.note, logits)
    jobs["AETTA, naive"] = partial(naive, method, images, args.passes)
    found = seconds(jobs, args.device, args.rounds)
    for name, time in found.items():
        forwards = time / found["forward pass"]
        yield name, {"ms": round(1000 * time, 3), "forwards": round(forwards, 2)}


@torch.no_grad()
def naive(method: TTAMethod, images: Tensor, passes: int) -> None:
    """AETTA's prediction and dropout passes, each through the whole network."""
    network = method.backbone
    method.predict(images)
    with ExitStack() as hooks:
        for name in method.stages():
            layer = network.get_submodule(name)
            hooks.enter_context(layer.register_forward_hook(lambda _, __, x: F.dropout(x, 0.2)))
        for _ in range(passes):
            network(images)
