"""Observers: measurements of a model as it adapts, which are no estimates of its accuracy."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.special import entr

from .. import in_range
from ..tensors import only_finite
from .functional.scores import softmax_score
from .observer import Observer, undisturbed
from .protocols import Adapting, method_of


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
        self.note(outputs["logits"])

    def note(self, logits: Tensor) -> Mapping[str, float]:
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
