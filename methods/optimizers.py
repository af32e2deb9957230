"""The optimizers that several papers use."""

from collections.abc import Callable, Iterable

from torch import nn
from torch.optim import SGD, Adam, Optimizer

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]


def sgd(params: Iterable[nn.Parameter]) -> Optimizer:
    """The CCC papers' optimizer: SGD, learning rate 2.5e-4, momentum 0.9."""
    return SGD(params, lr=2.5e-4, momentum=0.9)


def adam(params: Iterable[nn.Parameter]) -> Optimizer:
    """RoTTA's and SoTTA's optimizer: Adam, learning rate 1e-3."""
    return Adam(params, lr=1e-3)
