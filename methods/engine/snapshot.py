"""Detects steps that are not finite, and undoes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor
from torch.optim import Optimizer

from ...callbacks.functional.scores import finite_images
from ...callbacks.later import on_host
from ..distributed.sync import agreed
from .passes import updated

if TYPE_CHECKING:
    from .base import TTAMethod

FEW = 2**18  # values; fewer are faster to copy together than to handle tensor by tensor


def finite_step(method: TTAMethod, images: Tensor) -> Tensor:
    """The logits [B,C] of the method's updates, which are undone if anything is not finite.

    Images that are not finite are left out, as if the batch had only the others; their logits are NaN.
    """
    before, method.trace = method.before, {}
    before.remember(method.state)
    logits = updated(method, images).detach()
    total = before.magnitude_now(logits, method.trace.get("loss"), images)
    if method.divides:
        total = torch.where(agreed(total.isfinite()), total, torch.nan)
    if math.isfinite(read(total, method.trace)):
        method.not_finite_in_a_row = 0
        return logits
    method.state = before.undo()
    good = finite_images(images)
    bad = len(images) - int(good.sum())
    if bad:
        rank_zero_warn(
            "Some images are not finite. They are skipped, their logits are NaN, and the record "
            "counts them as not_finite_images."
        )
    if 0 < bad < len(images):
        rest = finite_step(method, images[good])
        logits = rest.new_full((len(images), rest.shape[1]), torch.nan)
        logits[good] = rest
    else:
        rank_zero_warn(
            "A step was not finite. It changes nothing, and the record counts it as not_finite."
        )
        method.trace = {"not_finite": 1}
        method.not_finite_in_a_row += 1
        logits = method.predict(images).detach()  # others may come from weights that were discarded
        logits[~good] = torch.nan
    if bad:
        method.trace["not_finite_images"] = bad
    return logits


class Before:
    """The state before a step: `tensors`, an optimizer, and a method's state.

    The copies of tensors are reused: allocating them for each step would cost a small network a tenth of
    its forward pass, because memory would be returned to the system and faulted in again.
    """

    def __init__(self, tensors: list[Tensor], optimizer: Optimizer | None) -> None:
        self.tensors, self.optimizer = tensors, optimizer
        self.values = [torch.empty_like(tensor, requires_grad=False) for tensor in tensors]
        self.momenta: dict[Any, Any] = {}
        self.layout: list[Any] = []  # of the optimizer's memory
        self.state: dict[str, Any] = {}

    @torch.no_grad()
    def remember(self, state: dict[str, Any]) -> None:
        """Copy the current tensors, optimizer and state."""
        if self.values:
            torch._foreach_copy_(self.values, self.tensors)
        if self.optimizer is not None:
            self.remember_optimizer(self.optimizer)
        self.state = copied(state)

    def remember_optimizer(self, optimizer: Optimizer) -> None:
        """Copy the optimizer's state, into the last copy if only values have changed."""
        layout = [(id(owner), *values) for owner, values in optimizer.state.items()]
        now, then = all_values(optimizer.state), all_values(self.momenta)
        if layout != self.layout or not all(isinstance(value, Tensor) for value in now):
            self.momenta, self.layout = copied(optimizer.state), layout
        elif now:
            torch._foreach_copy_(then, now)

    @torch.no_grad()
    def magnitude_now(self, logits: Tensor, loss: Any, images: Tensor) -> Tensor:
        """The current `magnitude` of the tensors, the gradients and the optimizer's state, a
        scalar."""
        known = [] if loss is None else [torch.as_tensor(loss, device=logits.device)]
        # The images' sum is as fast as memory is read.
        return magnitude([logits, images.sum(), *known, *self.changed()], logits.device)

    def changed(self) -> Iterator[Tensor]:
        """Every tensor, of any shape, that the step may have changed."""
        yield from self.tensors
        yield from (grad for tensor in self.tensors if (grad := tensor.grad) is not None)
        if self.optimizer is not None:
            memory = all_values(self.optimizer.state)
            yield from (value for value in memory if isinstance(value, Tensor))

    @torch.no_grad()
    def undo(self) -> dict[str, Any]:
        """Put tensors and optimizer back; returns the state."""
        for tensor, value in zip(self.tensors, self.values, strict=True):
            tensor.copy_(value)
        if self.optimizer is not None:
            self.optimizer.state.clear()
            self.optimizer.state.update(self.momenta)
            self.optimizer.zero_grad()
            self.momenta, self.layout = {}, []  # which are the optimizer's own now
        torch.clear_autocast_cache()
        return self.state


def all_values(state: dict[Any, dict[str, Any]]) -> list[Any]:
    """The optimizer's state, parameter by parameter."""
    return [value for values in state.values() for value in values.values()]


def read(number: Tensor, trace: dict[str, Any]) -> float:
    """The scalar as a number; the same transfer converts scalars of the trace on its device."""
    scalars = {
        name: value.reshape(())
        for name, value in trace.items()
        if isinstance(value, Tensor) and value.device == number.device and value.numel() == 1
    }
    answer, *values = on_host(number, *scalars.values())
    trace |= {name: value.item() for name, value in zip(scalars, values, strict=True)}
    return float(answer)


def copied(value: Any) -> Any:
    """A copy of nested dicts and lists of tensors and plain values."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return deepcopy(value)


def magnitude(tensors: Iterable[Tensor], device: torch.device) -> Tensor:
    """The sum of all absolute values, a scalar on the tensors' device; not finite if a value is not.

    It overflows only beyond 1e38 / n.
    """
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.device == device:
            kinds.setdefault(tensor.dtype, []).append(tensor)
    sums = []
    for dtype, kind in kinds.items():
        wide = torch.promote_types(dtype, torch.float32)
        if sum(tensor.numel() for tensor in kind) <= FEW:
            flat = torch._C._nn.flatten_dense_tensors(kind)
            sums.append(torch.linalg.vector_norm(flat, 1, dtype=wide))
        else:  # on a CPU it takes a fifth of the time of the largest absolute value
            kind = [tensor for tensor in kind if tensor.numel()]
            sums.append(torch.stack(torch._foreach_norm(kind, 1, dtype=wide)).sum())
    return sum(sums[1:], sums[0])
