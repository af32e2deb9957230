"""Restores: return a part of the weights to the source after every step."""

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from .. import in_range
from .protocols import Adapting
from .recovery import Recovery, is_finite


class Restore(Recovery):
    """Returns the weights that `masks` marks to the source after every step.

    The method's trace has their number as `restored`; steps that were not finite restore none.
    """

    @abstractmethod
    def masks(self, method: Adapting) -> Iterator[Tensor]:
        """Boolean masks of the elements to restore, shaped like each of `parameters_with_source`."""

    @torch.no_grad()
    def after_step(self, method: Adapting) -> None:
        if not is_finite(method):
            return
        restored = torch.tensor(0)
        pairs = method.parameters_with_source()
        for (parameter, source), mask in zip(pairs, self.masks(method), strict=False):
            parameter.copy_(torch.where(mask, source, parameter))
            restored = mask.sum() + restored
        method.trace["restored"] = restored
        torch.clear_autocast_cache()


class StochasticRestore(Restore):
    """Restores each weight with probability `p` (CoTTA, Wang et al. 2022)."""

    def __init__(self, p: float = 0.01) -> None:
        in_range(0, 1, p=p)
        self.p = p

    def masks(self, method: Adapting) -> Iterator[Tensor]:
        generator = method.generator("StochasticRestore")
        for parameter, _ in method.parameters_with_source():
            draws = torch.rand(parameter.shape, generator=generator, device=parameter.device)
            yield draws < self.p


class FisherRestore(Restore):
    """Restores the weights that matter least for this batch (PETAL, Brahma and Rai 2023).

    A weight is restored if its squared gradient is below the `quantile` of all squared gradients of the
    step; a step without a gradient restores nothing.
    """

    def __init__(self, quantile: float = 0.03) -> None:
        in_range(0, 1, quantile=quantile)
        self.quantile = quantile

    def masks(self, method: Adapting) -> Iterator[Tensor]:
        if "loss" not in method.trace:
            return
        grads = [(p, p.grad) for p, _ in method.parameters_with_source()]
        fisher = [torch.full_like(p, torch.inf) if g is None else g**2 for p, g in grads]
        threshold = linear_quantile(torch.cat([f.flatten() for f in fisher]), self.quantile)
        yield from (f < threshold for f in fisher)


def linear_quantile(values: Tensor, q: float) -> Tensor:
    """The q-quantile of a vector of any length, interpolated (torch.quantile stops at 2^24 values)."""
    position = q * (len(values) - 1)
    low = int(position)
    values = values.sort().values
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (position - low)
