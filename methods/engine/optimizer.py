"""Creates and checks a method's optimizer; defines the optimizers that several papers use."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn, optim
from torch.optim import SGD, Adam, Optimizer

from ... import HoldfastError

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


def made(
    factory: OptimizerFactory | Mapping[str, Any], parameters: list[nn.Parameter]
) -> Optimizer:
    """The optimizer of these parameters; raises HoldfastError if an argument is invalid.

    {"class": "SGD", "lr": 0.001, ...}, as in a method's `hparams`, names one of torch.optim.
    """
    if isinstance(factory, Mapping):
        settings = dict(factory)
        kind: Any = getattr(optim, str(settings.pop("class", "")), None)
        if not (isinstance(kind, type) and issubclass(kind, Optimizer)):
            raise HoldfastError(
                f"The optimizer {dict(factory)} cannot be used: 'class' must name a class of "
                "torch.optim."
            )
        factory = cast(OptimizerFactory, partial(kind, **settings))
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


def check_precision(backbone: nn.Module) -> None:
    """Raise HoldfastError if the weights' dtype is too coarse for small steps."""
    for name, parameter in backbone.named_parameters():
        if parameter.dtype in (torch.float16, torch.bfloat16):
            raise HoldfastError(
                f"The backbone's {name} is {parameter.dtype}, which is too coarse for small "
                "updates. Pass backbone.float(), and use autocast for speed "
                "(precision='bf16-mixed' of the Trainer)."
            )


def check_loss(loss: Any, name: str) -> None:
    """Raise HoldfastError unless the loss is a scalar tensor with a gradient."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise HoldfastError(
            f"{name}.loss returned {found}. Return a scalar tensor, such as a mean."
        )
    if not loss.requires_grad:
        raise HoldfastError(
            f"{name}.loss returned a tensor without a gradient. Compute it from the logits, without "
            "detach() or torch.no_grad()."
        )
