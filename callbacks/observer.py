"""The base of all that watches a method, and what those share: names, columns, state, test hooks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningModule, Trainer


class Observer(Callback):
    """Adds values to the record's row of each batch, in columns that begin with its `name`.

    Two of one class in a run need different names: `holdfast` names them AETTA, AETTA_2, ... in their
    order. The attributes named in `STATE`, by the class and its bases, are the state in checkpoints.
    """

    STATE: ClassVar[tuple[str, ...]] = ()
    name: str  # of its columns and state; default: the class's name
    details: Mapping[str, float] = {}  # by name, of this batch

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = vars(cls).get("name", cls.__name__)

    @property
    def state_key(self) -> str:
        return self.name

    def columns(self) -> dict[str, float]:
        """Its values of this batch, by column of the record."""
        return {f"{self.name}_{key}": value for key, value in self.details.items()}

    def _names(self) -> list[str]:
        return [name for c in type(self).__mro__ for name in vars(c).get("STATE", ())]

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on, as tensors and plain values."""
        return {name: getattr(self, name) for name in self._names()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        for name in self._names():
            setattr(self, name, deepcopy(state_dict[name]))


class InPredictions(Observer):
    """Runs the test hooks in `Trainer.predict` as well, where the outputs are only the logits [B,C]."""

    def on_predict_batch_start(self, *arguments: Any) -> None:
        self.on_test_batch_start(*arguments)

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *rest: Any
    ) -> None:
        self.on_test_batch_end(trainer, pl_module, {"logits": outputs}, *rest)


def name_of(watcher: object) -> str:
    """The `name` of an estimator or alarm; its class's if it is none of this package."""
    return getattr(watcher, "name", type(watcher).__name__)


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
