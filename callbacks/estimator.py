"""How accurate is the model on this batch? Estimates without labels."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from .protocol import Adapting


class AccuracyEstimator(Callback, ABC):
    """Estimates the accuracy on each batch before the method adapts to it.

    Subclasses override `estimate`; `latest` holds its last answer in [0,1], or None.
    """

    latest: float | None = None

    @abstractmethod
    def estimate(self, method: Adapting, images: Tensor) -> Tensor | None:
        """Accuracy in [0,1] that `method` has on images [B,3,H,W]; None if it cannot say yet."""

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        method: Any = pl_module
        method.recover()
        answer = self.estimate(method, batch.images)
        self.latest = None if answer is None else float(answer)


class SoftmaxScore(AccuracyEstimator):
    """The mean confidence max softmax(z / T) (Lee et al. 2024, baseline; T is fixed, not fitted)."""

    def __init__(self, temperature: float = 2.0) -> None:
        self.temperature = temperature

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        logits = method.predict(images) / self.temperature
        return torch.softmax(logits, dim=1).amax(1).mean()
