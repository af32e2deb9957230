"""Checks with single, unusual and bad images, other precisions, and long runs."""

import gc
from typing import Any

import torch
from torch import Tensor

from ..engine.base import TTAMethod
from .common import (
    Make,
    Net,
    adapt_finitely,
    demand,
    demand_alike,
    demand_finite,
    image_batches,
    pass_over,
    promises,
    same,
    spoiled,
    tensors,
    tested,
)

BAD = (0, 3)  # batches with images that are not finite
MEMORY_STEPS = 1_000


@promises("single images are adapted to")
def one_image(make: Make, net: Net) -> None:
    method = make(net())
    for images in image_batches(9, size=1):
        adapt_finitely(method, images, "on single images")
    demand_finite(tensors(method).values(), "on single images")


@promises("images of one colour leave all numbers finite")
def constant_images(make: Make, net: Net) -> None:
    method = make(net())
    for value in (0.0, 0.0, 0.5, 0.5, 1.0, 1.0):
        adapt_finitely(method, torch.full((4, 3, 8, 8), value), "on images of one colour")
    demand_finite(tensors(method).values(), "on images of one colour")


@promises("probabilities that round to 1 leave all numbers finite", "bn")
def certain_predictions(make: Make, net: Net) -> None:
    certain = net()
    certain[-1].weight.data *= 1e4  # type: ignore
    method = make(certain)
    for images in image_batches(4):
        adapt_finitely(method, images, "where the model is certain")
    demand_finite(tensors(method).values(), "where the model is certain")


@promises("images of 224 x 224 are adapted to", "bn")
def large_images(make: Make, net: Net) -> None:
    method = make(net())
    method.fit([torch.rand(2, 3, 224, 224)])
    adapt_finitely(method, torch.rand(2, 3, 224, 224), "on images of 224 x 224")


@promises("precision bf16-mixed leaves weights and logits in float32")
def half_precision(make: Make, net: Net) -> None:
    method = make(net())
    logits = tested(method, image_batches(5), precision="bf16-mixed")
    found = {t.dtype for t in (*logits, *tensors(method).values()) if t.is_floating_point()}
    demand(
        found == {torch.float32},
        f"with precision bf16-mixed there are weights or logits of {', '.join(map(str, found))}",
        "Send images through networks by self.logits, and compute losses in float32",
    )
    demand_finite((*logits, *tensors(method).values()), "with precision bf16-mixed")


@promises("in float64 all is float64", "bn")
def double_precision(make: Make, net: Net) -> None:
    method = make(net())
    method.adapt(image_batches(1)[0])
    method.double()
    for images in image_batches(4):
        found = method.adapt(images.double()).dtype
        demand(
            found == torch.float64,
            f"after method.double() the logits are {found}",
            "Make tensors in the type and on the device of those that come in",
        )


@promises("images that are not finite are left out, and batches of them change nothing", "bn")
def not_finite(make: Make, net: Net) -> None:
    backbone = net()
    for images, values in ((1, (torch.nan, torch.inf, -torch.inf)), (slice(None), (torch.nan,))):
        for value in values:
            skips_bad_images(make(backbone), make(backbone), images, value)


def skips_bad_images(method: TTAMethod, other: TTAMethod, where: slice | int, value: float) -> None:
    """Demand that bad pixels in these images of the batches BAD do not change the results of the others."""
    change = (
        "Leave adapt as it is, which undoes such steps, and keep all that changes in self.state"
    )
    for number, batch in enumerate(image_batches(8)):
        if number not in BAD:
            equal = torch.equal(method.adapt(batch), other.adapt(batch))
            demand(equal, f"after images of {value} at an earlier step, logits differ", change)
            continue
        logits = method.adapt(spoiled(batch, value, where))
        if isinstance(where, slice):
            pass_over(other)
            expected = {"not_finite": 1, "not_finite_images": len(batch)}
            demand(bool(logits.isnan().all()), f"images of {value} have logits", change)
            demand(method.trace == expected, f"the trace is {method.trace}", change)
        else:
            good = [k for k in range(len(batch)) if k != where]
            alone = torch.equal(logits[good], other.adapt(batch[good]))
            demand(alone, f"an image of {value} changes the logits of the others", change)
            demand(bool(logits[where].isnan().all()), f"an image of {value} has logits", change)
            counted = method.trace.pop("not_finite_images", 0)
            demand(counted == 1, f"{counted} images were counted as not finite, not 1", change)
            demand(same(method.trace, other.trace), "the trace counts images left out", change)
    demand_finite(tensors(method).values(), f"after images of {value}")
    demand_alike(method, other, f"after images of {value}", change)


@promises(f"memory does not grow in {MEMORY_STEPS:,} steps", "bn")
def memory(make: Make, net: Net, steps: int = MEMORY_STEPS) -> None:
    """The maximum of each number of `alive` in the first and in the second half of the steps.

    Counts objects, not the bytes of the process, which depend on the allocator.
    """
    images, counts = image_batches(16), []
    frozen = gc.get_freeze_count()
    gc.collect()
    gc.freeze()  # what was there before is not counted
    try:
        method = make(net())
        for step in range(steps):
            method.adapt(images[step % len(images)])
            if step % 5 == 4:  # out of phase with memories that learn at every fourth step
                counts.append(alive())
    finally:
        gc.unfreeze()
        if frozen:
            gc.freeze()
    for name in counts[0]:
        numbers = [count[name] for count in counts]
        half = len(numbers) // 2
        more = max(numbers[half:]) - max(numbers[:half])
        demand(
            more < steps // 4 + 128 * (name == "numbers"),  # a state that appears late
            f"from step {steps // 2:,} to {steps:,} the number of {name} in memory grows by {more:,}",
            "Bound what is remembered between steps, and detach what is summed up",
        )


def alive() -> dict[str, int]:
    """The number of tensors, of their elements, of nodes in gradient graphs, and of all objects."""
    gc.collect()
    objects = gc.get_objects()
    tensors = [thing for thing in objects if isinstance(thing, Tensor)]
    return {
        "tensors": len(tensors),
        "numbers": sum(tensor.numel() for tensor in tensors),
        "nodes": sum(len(nodes(tensor)) for tensor in tensors if tensor.grad_fn is not None),
        "objects": len(objects),
    }


def nodes(tensor: Tensor) -> set[Any]:
    """The nodes of the graph that computes the gradients of a tensor of any shape."""
    left, seen = [tensor.grad_fn], set[Any]()
    while left:
        if (node := left.pop()) is not None and node not in seen:
            seen.add(node)
            left += [below for below, _ in node.next_functions]
    return seen
