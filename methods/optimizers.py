"""Optimizers that several papers use, a sharpness-aware step, and optimizers as plain settings."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn, optim
from torch.optim import SGD, Adam, AdamW, Optimizer

from .. import HoldfastError

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]


def sgd(params: Iterable[nn.Parameter]) -> Optimizer:
    """SGD, learning rate 2.5e-4, momentum 0.9 (CCC's code; the thesis prints 2.5e-5 in §2.4)."""
    return SGD(params, lr=2.5e-4, momentum=0.9)


def nesterov(params: Iterable[nn.Parameter]) -> Optimizer:
    """ROID's and CMF's optimizer: SGD, learning rate 2.5e-4, Nesterov momentum 0.9."""
    return SGD(params, lr=2.5e-4, momentum=0.9, nesterov=True)


def fast_nesterov(params: Iterable[nn.Parameter]) -> Optimizer:
    """CoTTA's, RMT's and SANTA's optimizer: SGD, learning rate 0.01, Nesterov momentum 0.9."""
    return SGD(params, lr=0.01, momentum=0.9, nesterov=True)


def adam(params: Iterable[nn.Parameter]) -> Optimizer:
    """RoTTA's and SoTTA's optimizer: Adam, learning rate 1e-3."""
    return Adam(params, lr=1e-3)


def adamw(params: Iterable[nn.Parameter]) -> Optimizer:
    """TPT's optimizer: AdamW, learning rate 5e-3, weight decay 0.01."""
    return AdamW(params, lr=5e-3)


def slow_adamw(params: Iterable[nn.Parameter]) -> Optimizer:
    """BATCLIP's optimizer: AdamW, learning rate 5e-4, weight decay 0.01."""
    return AdamW(params, lr=5e-4)


def sam_step(
    optimizer: Optimizer, loss: Tensor, loss_again: Callable[[], Tensor], rho: float
) -> Tensor:
    """Step with the gradient at the worst weights nearby, about theta + rho g / |g| (Foret et al. 2021).

    Returns the scalar loss there. `loss` is the current one, g its gradient; `loss_again` makes it again.
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


def made(
    factory: OptimizerFactory | Mapping[str, Any], parameters: list[nn.Parameter]
) -> Optimizer:
    """The optimizer of these parameters, from a factory or from `settings_of` another.

    Raises HoldfastError if an argument is invalid.
    """
    if isinstance(factory, Mapping):
        place, _, name = str(factory.get("class_path", "")).rpartition(".")
        kind = getattr(optim, name, None) if place.startswith("torch.optim") else None
        if not (isinstance(kind, type) and issubclass(kind, Optimizer)):
            raise HoldfastError(
                f"The checkpoint's optimizer {dict(factory)} is none of torch.optim. Pass optimizer=..."
            )
        factory = cast(OptimizerFactory, partial(kind, **factory.get("init_args", {})))
    try:
        optimizer = factory(parameters)
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
    init_args = {k: v for k, v in optimizer.defaults.items() if k in names and plain(v)}
    return {"class_path": f"{kind.__module__}.{kind.__name__}", "init_args": init_args}


def plain(value: object) -> bool:
    """Whether a checkpoint can hold a value: a number, a string, None, or a list or mapping of these."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and plain(list(value.values()))
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return isinstance(value, bool | int | float | str | None)
