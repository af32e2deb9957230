"""Observers of a method: their names, columns, state and test hooks, and what they share."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.special import entr

from .. import in_range
from ..tensors import finite_images
from .functional.scores import softmax_score
from .protocols import Adapting, method_of


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


class PeriodicObserver(Observer, ABC):
    """Measures something before every `every`-th step, for the rows of these steps.

    Subclasses override `observe`. The run stays bit for bit the same, and a resumed one measures alike.

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


class PredictionStatistics(Observer):
    """Confidence and spread of the scored predictions of each batch, for the record's row.

    `confidence`: mean max softmax at temperature 1 (Lee et al. 2024, fig. 2a). `classes` and `entropy`:
    number of classes predicted over the last `window` batches, and the entropy in nats of their
    shares, which falls to 0 where a model predicts one class only (fig. 2b).

    Args:
        window: batches that the classes are counted over.
    """

    STATE = ("counts",)

    def __init__(self, window: int = 25) -> None:
        in_range(1, window=window)
        self.window = window
        self.counts: list[Tensor] = []  # [C] of each batch in the window

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.measure(outputs["logits"])

    def measure(self, logits: Tensor) -> Mapping[str, float]:
        """The values after a batch with these logits [B,C], NaN where images are not finite."""
        logits = only_finite(logits)
        counts = torch.bincount(logits.argmax(1), minlength=logits.shape[1]).cpu()
        self.counts = [*self.counts, counts][-self.window :]
        total = torch.stack(self.counts).sum(0)
        self.details = {
            "confidence": float(softmax_score(logits, 1.0)),
            "classes": float((total > 0).sum()),
            "entropy": float(entr(total / total.sum()).sum()),
        }
        return self.details


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


def only_finite(images: Tensor) -> Tensor:
    """The images that are finite, [n,...]; the tensor itself if all are."""
    # A thirtieth of the time of checking each value.
    if images.sum().isfinite():
        return images
    return images[finite_images(images)]


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Disables gradients, and restores PyTorch's global random state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
        yield
