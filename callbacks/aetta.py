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
from .functional.scores import aetta_parts, agreements, smoothed, weighted_error
from .protocols import Adapting, method_of


class AETTA(AccuracyEstimator):
    """Estimates accuracy from how often predictions change under dropout (Lee et al. 2024, Eq. 13).

    The estimated error is smoothed by s <- 0.6 s + 0.4 error over batches, corruptions and resets; s
    begins with the plain disagreement on the first batch, as in the official code. The band is ours: 1.96
    standard deviations of the error over single passes, which covers sampling error but not bias.

    Args:
        dropout: rate of the element-wise dropout; None: AETTA's for that number of classes.
        passes: number of passes with dropout (N); the paper finds no difference between 5, 10 and
            15.
        alpha: exponent of the weight.
        weight: weight of the newest error in the average; 1: no smoothing.
        layers: modules of the predicting network after which dropout acts; None: found by structure.
        at_once: passes in one large batch; None: as many as are fast and fit into memory.
        bfloat16: run the passes, and only them, in mixed precision, which takes about half the time.
        also: further numbers of passes N, for which `disagreement_N` and `balance_N` of the first N passes
            are recorded; `aetta_estimates` turns these columns into estimates.

    Columns of the record: `disagreement`, `balance`, and `classes`, the network's number of classes.
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
        at_once: int | None = None,
        bfloat16: bool = False,
        also: Sequence[int] = (),
    ) -> None:
        in_range(1, passes=passes, at_once=at_once)
        for number in also:
            in_range(1, also=number)
        in_range(0, 0.99, dropout=dropout)
        in_range(0, 1, weight=weight)
        self.dropout, self.passes, self.alpha, self.weight = dropout, passes, alpha, weight
        self.layers, self.at_once, self.bfloat16 = layers, at_once, bfloat16
        self.also = tuple(also)
        self.details: dict[str, float] = {}
        self.average: float | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.dropout_passes(method_of(pl_module))  # fail early

    def dropout_passes(self, method: Adapting) -> DropoutPasses:
        """Dropout after the modules that were named, or after the network's stages."""
        layers = method.stages() if self.layers is None else self.layers
        return DropoutPasses(method.predictor, layers, self.at_once)

    def estimate(self, method: Adapting, images: Tensor) -> float | None:
        self.details, self.mean_softmax = {}, None
        passes = self.dropout_passes(method)
        with passes.record(images):
            logits = finite(method.predict(images))
        if len(images) == 1:  # whose batch statistics PyTorch may refuse
            images = images.repeat(2, 1, 1, 1)
        rate = dropout_rate(logits.shape[1]) if self.dropout is None else self.dropout
        random = method.generator(f"AETTA {method.step_count}")
        lower = self.bfloat16 or torch.is_autocast_enabled(images.device.type)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=lower):
            dropped = passes(images, max(self.passes, *self.also, 1), rate, random)
        dropped = dropped[:, : len(logits)].to(logits.dtype)
        counts = sorted({*self.also, self.passes})
        found = {n: aetta_parts(logits.argmax(1), dropped[:n]) for n in counts}
        disagreement, even = found.pop(self.passes)
        error = float(weighted_error(disagreement, even, logits.shape[1], self.alpha))
        if math.isnan(error):  # a value that is not finite would stay in the average
            return None if dropped.isfinite().all() else error
        if self.average is None:
            self.average = float(disagreement)
        self.mean_softmax = dropped[: self.passes].softmax(-1).mean(0)
        self.details = {"disagreement": float(disagreement), "balance": float(even)}
        self.details["classes"] = float(logits.shape[1])
        for n, (other, spread) in found.items():
            self.details |= {f"disagreement_{n}": float(other), f"balance_{n}": float(spread)}
        self.average = smoothed(error, self.average, self.weight)
        each = 1 - agreements(logits.argmax(1), dropped[: self.passes].argmax(-1))
        errors = weighted_error(each, even, logits.shape[1], self.alpha)
        if self.passes > 1:
            self.band = around(1 - self.average, Z * float(errors.std()))
        return 1 - self.average
