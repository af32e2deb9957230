"""Observers: values for the record's rows, and measurements inside a model as it adapts."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from .. import in_range
from .protocols import Adapting, method_of


class Observer(Callback):
    """Adds values to the record's row of each batch, in columns that begin with its `name`.

    Two of one class in a run need different names: `holdfast` names them AETTA, AETTA_2, ... in their
    order.
    """

    details: Mapping[str, float] = {}  # by name, of this batch
    _name = ""

    @property
    def name(self) -> str:
        """The name of its columns and state; default: the class's name."""
        return self._name or type(self).__name__

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def state_key(self) -> str:
        return self._name or super().state_key


def name_apart(callbacks: Iterable[Callback]) -> None:
    """Number observers of one name: AETTA, AETTA_2, ..."""
    counts: Counter[str] = Counter()
    for callback in callbacks:
        if isinstance(callback, Observer):
            counts[name := callback.name] += 1
            if counts[name] > 1:
                callback.name = f"{name}_{counts[name]}"


class PeriodicObserver(Observer, ABC):
    """Measures something before every `every`-th step, for the rows of these steps.

    Subclasses override `observe`. The run stays bit for bit the same, and a resumed run measures at the
    same steps.

    Args:
        every: steps from one measurement to the next; the first is before the first step.
    """

    def __init__(self, every: int = 100) -> None:
        in_range(1, every=every)
        self.every = every

    @abstractmethod
    def observe(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        """Values by name, of the method as it is before it adapts to images [B,3,H,W] in [0,1]."""

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        with trainer.precision_plugin.test_step_context():
            self.look(method_of(pl_module), batch.images)

    def look(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        """The values before `method.adapt(images)`, images [B,3,H,W], if they are due; for custom loops."""
        self.details = {}
        if method.step_count % self.every == 0:
            method.recover()
            with undisturbed(images.device):
                self.details = self.observe(method, images)
        return self.details


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Disables gradients, and restores PyTorch's global random state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
        yield
