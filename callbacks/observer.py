"""What the callbacks of this package share: names, columns of the record, state, and test hooks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningModule, Trainer


class DeclaredState:
    """The attributes named in `STATE`, by the class and its bases, are its state in checkpoints.

    Attributes that a checkpoint of an earlier version lacks stay as they are.
    """

    STATE: ClassVar[tuple[str, ...]] = ()

    def _names(self) -> list[str]:
        return [name for c in type(self).__mro__ for name in vars(c).get("STATE", ())]

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on, as tensors and plain values."""
        return {name: getattr(self, name) for name in self._names()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        for name in self._names():
            if name in state_dict:
                setattr(self, name, deepcopy(state_dict[name]))


class InPredictions(Callback):
    """Runs the test hooks in `Trainer.predict` as well, where the outputs are only the logits [B,C]."""

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.on_test_start(trainer, pl_module)

    def on_predict_batch_start(self, *arguments: Any) -> None:
        self.on_test_batch_start(*arguments)

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *rest: Any
    ) -> None:
        self.on_test_batch_end(trainer, pl_module, {"logits": outputs}, *rest)


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


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Disables gradients, and restores PyTorch's global random state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
        yield


def name_of(watcher: object) -> str:
    """An estimator's name: its `name`, if it has one, or its class's."""
    return getattr(watcher, "name", type(watcher).__name__)
