"""Check for several devices: a batch divided over two ranks gives the same result as one device."""

from typing import Any

import torch

from .common import Make, Net, demand, image_batches, tested

STEPS, ODD = 6, 7  # of seven images, which two ranks cannot divide evenly
TOLERANCE = 1e-9  # in float64: of rounding only


def outcome(make: Make, net: Net, devices: int) -> dict[str, list[torch.Tensor]]:
    """Logits [B,C] and weights of a few steps in float64, on one device or divided over several."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method, images = make(net()).double(), [x.double() for x in image_batches(STEPS, ODD)]
        options: dict[str, Any] = {"devices": devices, "precision": "64-true"}
        if devices > 1:
            options["strategy"] = "sync"
        logits = tested(method, images, **options)
    return {"logits": logits, "weights": [t.detach() for t in method.restorable_tensors()]}


def on_two_devices(make: Make, net: Net) -> dict[str, list[torch.Tensor]]:
    """The logits [B,C] and weights of one rank, in a process that the other one starts."""
    return outcome(make, net, 2)


def compare(found: dict[str, list[torch.Tensor]], make: Make, net: Net) -> None:
    """Demand that two ranks give the same logits [B,C] and weights as one device."""
    for name, expected in outcome(make, net, 1).items():
        apart = max(
            (float((a - b).abs().max()) for a, b in zip(found[name], expected, strict=True)),
            default=0.0,
        )
        demand(
            apart <= TOLERANCE,
            f"on two devices that divide each batch, {name} differ from one device's by {apart:.1g}",
            "Send images through networks by self.logits, and draw random numbers from self.generator",
        )
