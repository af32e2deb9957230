"""PredictionStatistics: the model's confidence, and the number of classes that it predicts."""

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.special import entr

from .. import in_range
from .declared_state import DeclaredState
from .functional.scores import softmax_score, without_bad
from .observer import Observer


class PredictionStatistics(DeclaredState, Observer):
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
        """The values after a batch with these logits [B,C], NaN for images that are not finite; for
        custom loops."""
        logits = without_bad(logits)
        counts = torch.bincount(logits.argmax(1), minlength=logits.shape[1]).cpu()
        self.counts = [*self.counts, counts][-self.window :]
        total = torch.stack(self.counts).sum(0)
        self.details = {
            "confidence": float(softmax_score(logits, 1.0)),
            "classes": float((total > 0).sum()),
            "entropy": float(entr(total / total.sum()).sum()),
        }
        return self.details
