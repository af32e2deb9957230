"""Concentration: accuracy from the entropy of the mean prediction."""

import math
from typing import Any

from lightning.pytorch import LightningDataModule
from torch import Tensor

from .. import in_range
from .functional.scores import mean_entropy
from .source_fit import LineFitted


class Concentration(LineFitted):
    """Accuracy from the entropy of the mean softmax, divided by ln C, by a fitted line.

    Predictions concentrate on few classes as a model collapses (ASR resets by a similar measure, 2026),
    and also on streams that show few classes at a time.

    Args:
        stream: see `LineFitted`.
        images: see `LineFitted`.
        memory: decay of the moving average, in which a batch has weight 1 - `memory`.

    Columns of the record: `entropy` (nats), `change` (against its moving average, nats; negative where
    predictions concentrate).
    """

    STATE = ("average",)

    def __init__(
        self, stream: LightningDataModule, images: int | None = None, memory: float = 0.9
    ) -> None:
        super().__init__(stream, images)
        in_range(0, 1, memory=memory)
        self.memory = memory
        self.average: float | None = None

    def score(self, logits: Tensor) -> float:
        return float(mean_entropy(logits, floor=1e-12)) / math.log(logits.shape[1])

    def judge(self, logits: Tensor) -> Any:
        entropy = self.score(logits) * math.log(logits.shape[1])
        before = entropy if self.average is None else self.average
        self.average = self.memory * before + (1 - self.memory) * entropy
        self.details = {"entropy": entropy, "change": entropy - before}
        return super().judge(logits)
