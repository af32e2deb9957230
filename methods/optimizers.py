"""A sharpness-aware step, and optimizers from and as plain settings."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn, optim
from torch.optim import Optimizer

from .. import HoldfastError

# As `lightning.pytorch.cli.OptimizerCallable`, whose import would take a fifth of a second.
OptimizerCallable = Callable[[Iterable[nn.Parameter]], Optimizer]


def sam_step(
    optimizer: Optimizer, loss: Tensor, loss_again: Callable[[], Tensor], rho: float
) -> Tensor:
    """Step with the gradient at the worst weights nearby, about theta + rho g / |g| (Foret et al. 2021).

    Returns the scalar loss there. `loss` is the loss here, g its gradient; `loss_again` computes it again.
    """
    optimizer.zero_grad()
    loss.backward()
    params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    here = [p.detach().clone() for p in params]
    with torch.no_grad():
        norm = torch.norm(torch.stack([p.grad.norm() for p in params]))
        for p in params:
            p.add_(p.grad * (rho / (norm + 1e-12)))
    torch.clear_autocast_cache()
    optimizer.zero_grad()
    worst = loss_again()
    worst.backward()
    with torch.no_grad():
        torch._foreach_copy_(params, here)
    optimizer.step()
    torch.clear_autocast_cache()
    return worst.detach()


def make_optimizer(
    make: OptimizerCallable | Mapping[str, Any], parameters: list[nn.Parameter]
) -> Optimizer:
    """The optimizer of these parameters, by a function or by `settings_of` another optimizer.

    Raises HoldfastError if an argument is invalid.
    """
    if isinstance(make, Mapping):
        module, _, name = str(make.get("class_path", "")).rpartition(".")
        kind = getattr(optim, name, None) if module.startswith("torch.optim") else None
        if not (isinstance(kind, type) and issubclass(kind, Optimizer)):
            raise HoldfastError(
                f"The checkpoint's optimizer {dict(make)} is not from torch.optim. Pass optimizer=..."
            )
        make = cast(OptimizerCallable, partial(kind, **make.get("init_args", {})))
    try:
        optimizer = make(parameters)
    except ValueError as error:
        raise HoldfastError(
            f"The optimizer cannot be created ({error}). Change its arguments."
        ) from error
    for group in optimizer.param_groups:
        rate = float(group.get("lr", 0))
        if not 0 <= rate < math.inf:
            raise HoldfastError(f"lr={rate}: pass a finite learning rate of at least 0.")
    return optimizer


def settings_of(optimizer: Optimizer | None) -> dict[str, Any] | None:
    """{"class_path": "torch.optim.SGD", "init_args": {"lr": 0.001, ...}}, with all default arguments."""
    if optimizer is None:
        return None
    kind = type(optimizer)
    names = inspect.signature(kind).parameters
    init_args = {k: v for k, v in optimizer.defaults.items() if k in names and is_plain(v)}
    return {"class_path": f"{kind.__module__}.{kind.__name__}", "init_args": init_args}


def is_plain(value: object) -> bool:
    """Whether a checkpoint can hold a value: a number, a string, None, or a list or mapping of these."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and is_plain(list(value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, bool | int | float | str | None)
