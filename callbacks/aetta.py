"""AETTA: accuracy from disagreement under dropout."""

import math
from collections.abc import Sequence

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import in_range
from .dropout import DropoutPasses, dropout_rate
from .estimator import AccuracyEstimator, finite
from .functional.bands import Z, around
from .functional.scores import aetta_parts, smoothed, weighted_error
from .protocols import Adapting, method_of


class AETTA(AccuracyEstimator):
    """Estimates accuracy from how often predictions change under dropout (Lee et al. 2024, Eq. 13).

    The estimated error is smoothed by s <- 0.6 s + 0.4 error over batches, corruptions and resets; s
    begins with the plain disagreement on the first batch, as in the official code. The band is ours: 1.96
    standard deviations of the error over single passes, which covers sampling error but not bias.

    Args:
        dropout: rate of the element-wise dropout; None: AETTA's for that number of classes.
        passes: number of passes with dropout (N); in the paper 5, 10 and 15 make no difference.
        alpha: exponent of the weight.
        weight: weight of the newest error in the average; 1: no smoothing.
        layers: modules of the predicting network after which dropout acts; None: found by structure.
        bfloat16: run the passes, and only them, in mixed precision, which takes about half the time.

    Columns of the record: `disagreement`, `balance`, and `classes`, the network's number of classes;
    `aetta_estimates` turns them into estimates.
    """

    STATE = ("average",)
    mean_softmax: Tensor | None = None  # mean softmax over the passes [B,C] of the current batch

    def __init__(
        self,
        dropout: float | None = None,
        passes: int = 10,
        alpha: float = 3.0,
        weight: float = 0.4,
        layers: Sequence[str] | None = None,
        bfloat16: bool = False,
    ) -> None:
        in_range(1, passes=passes)
        in_range(0, 0.99, dropout=dropout)
        in_range(0, 1, weight=weight)
        self.dropout, self.passes, self.alpha, self.weight = dropout, passes, alpha, weight
        self.layers, self.bfloat16 = layers, bfloat16
        self.details: dict[str, float] = {}
        self.average: float | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.dropout_passes(method_of(pl_module))  # fail early

    def dropout_passes(self, method: Adapting) -> DropoutPasses:
        """Dropout after the modules that were named, or after the network's stages."""
        layers = method.stages() if self.layers is None else self.layers
        return DropoutPasses(method.predictor, layers)

    def predictions(self, method: Adapting, images: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Logits [B,C] of the images [B,3,H,W], and those of `count` passes with dropout [N,B,C]."""
        passes = self.dropout_passes(method)
        with passes.record(images):
            logits = finite(method.predict(images))
        if len(images) == 1:  # whose batch statistics PyTorch may refuse
            images = images.repeat(2, 1, 1, 1)
        rate = dropout_rate(logits.shape[1]) if self.dropout is None else self.dropout
        random = method.generator(f"AETTA {method.step_count}")
        lower = self.bfloat16 or torch.is_autocast_enabled(images.device.type)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=lower):
            dropped = passes(images, count, rate, random)
        return logits, dropped[:, : len(logits)].to(logits.dtype)

    def estimate(self, method: Adapting, images: Tensor) -> float | None:
        self.details, self.mean_softmax = {}, None
        return self.judge(*self.predictions(method, images, self.passes))

    def judge(self, logits: Tensor, dropped: Tensor) -> float | None:
        """The estimate from logits [B,C], and those of all passes with dropout [N,B,C]."""
        predicted, classes = logits.argmax(1), logits.shape[1]
        disagreement, balance = aetta_parts(predicted, dropped)
        error = float(weighted_error(disagreement, balance, classes, self.alpha))
        if math.isnan(error):  # a value that is not finite would stay in the average
            return None if dropped.isfinite().all() else error
        self.mean_softmax = dropped.softmax(-1).mean(0)
        self.details = {
            "classes": float(classes),
            "disagreement": float(disagreement),
            "balance": float(balance),
        }
        before = float(disagreement) if self.average is None else self.average
        self.average = smoothed(error, before, self.weight)
        if self.passes > 1:
            each = 1 - (predicted == dropped.argmax(-1)).float().mean(-1)
            errors = weighted_error(each, balance, classes, self.alpha)
            self.band = around(1 - self.average, Z * float(errors.std()))
        return 1 - self.average
