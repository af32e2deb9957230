"""The base of resets and restores, and restores: a part of the weights returns after every step."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import in_range
from .observer import InPredictions
from .protocols import Adapting, callbacks_of, method_of


class Recovery(InPredictions, ABC):
    """Returns a model to its source before a step (`Reset`), or a part of it after a step (`Restore`).

    RDumb, SAR and CoTTA include the recovery of their papers, which also works outside a Trainer. A
    recovery among the Trainer's callbacks, or in a `Watch`, replaces it; one that is passed to a method
    as `recovery` acts in addition. Recoveries run before other callbacks, so that estimators see the
    weights that predict.
    """

    def before_step(self, method: Adapting) -> None:
        """Act on the model before the next step; calling it twice is harmless."""

    def after_step(self, method: Adapting) -> None:
        """Act after a step; called exactly once after each."""

    def listen(self, watching: Sequence[object], in_trainer: bool = False) -> None:
        """Find the callbacks that it depends on among those of the run; default: none.

        Raises HoldfastError if one is missing, or if it needs a Trainer and there is none.
        """

    def __repr__(self) -> str:
        words = [f"{name}={value!r}" for name, value in arguments(self).items()]
        return f"{type(self).__name__}({', '.join(words)})"

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        # A new list, because Lightning is iterating over the old one and must set up each callback
        # once.
        ordered = sorted(callbacks_of(trainer), key=lambda c: not isinstance(c, Recovery))
        trainer.callbacks = ordered  # type: ignore[attr-defined]
        self.listen(ordered, in_trainer=True)
        method_of(pl_module).give_way(self)

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        if not (method := method_of(pl_module)).frozen:
            self.before_step(method)

    def on_test_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if not (method := method_of(pl_module)).frozen:
            self.after_step(method)


def is_finite(method: Adapting) -> bool:
    """Whether the last step was finite; other steps changed nothing and do not count."""
    return "not_finite" not in method.trace


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


def arguments(thing: object) -> dict[str, Any]:
    """The constructor's arguments that are plain values and that `thing` stores under their names.

    Arguments that `**kwargs` passes to a base class are included if they differ from the default.
    """
    names = inspect.signature(type(thing)).parameters
    values = {name: getattr(thing, name) for name in names if hasattr(thing, name)}
    if any(p.kind is p.VAR_KEYWORD for p in names.values()):
        for base in type(thing).__mro__[1:]:
            for name, p in inspect.signature(base).parameters.items():
                if name not in values and getattr(thing, name, p.default) != p.default:
                    values[name] = getattr(thing, name)
    plain = (bool, int, float, str, type(None), list, tuple)
    return {name: value for name, value in values.items() if isinstance(value, plain)}
