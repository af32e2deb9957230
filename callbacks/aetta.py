"""AETTA: accuracy from disagreement under dropout, and how well its passes are calibrated."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import in_range
from ..run_folder import CALIBRATION
from .alarm import only
from .dropout import DropoutPasses, dropout_rate
from .estimator import AccuracyEstimator, finite
from .functional.bands import Z, around
from .functional.scores import (
    aetta_parts,
    corrected_confidence,
    finite_images,
    smoothed,
    weighted_error,
)
from .observer import Observer
from .protocols import Adapting, callbacks_of, method_of
from .record import save_arrays

SUMS = ("images", "confidence", "accuracy", "corrected")
BINS = 10  # of equal width over [0,1]


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
        bfloat16: bool = False,
        also: Sequence[int] = (),
    ) -> None:
        in_range(1, passes=passes, also=min(also, default=None))
        in_range(0, 0.99, dropout=dropout)
        in_range(0, 1, weight=weight)
        self.dropout, self.passes, self.alpha, self.weight = dropout, passes, alpha, weight
        self.layers, self.bfloat16, self.also = layers, bfloat16, tuple(also)
        self.details: dict[str, float] = {}
        self.average: float | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.dropout_passes(method_of(pl_module))  # fail early

    def dropout_passes(self, method: Adapting) -> DropoutPasses:
        """Dropout after the modules that were named, or after the network's stages."""
        layers = method.stages() if self.layers is None else self.layers
        return DropoutPasses(method.predictor, layers)

    def predictions(self, method: Adapting, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B,C] of the images [B,3,H,W], and those of all passes with dropout [N,B,C]."""
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
        return logits, dropped[:, : len(logits)].to(logits.dtype)

    def estimate(self, method: Adapting, images: Tensor) -> float | None:
        self.details, self.mean_softmax = {}, None
        logits, dropped = self.predictions(method, images)
        predicted, own, classes = logits.argmax(1), dropped[: self.passes], logits.shape[1]
        disagreement, balance = aetta_parts(predicted, own)
        error = float(weighted_error(disagreement, balance, classes, self.alpha))
        if math.isnan(error):  # a value that is not finite would stay in the average
            return None if dropped.isfinite().all() else error
        self.mean_softmax = own.softmax(-1).mean(0)
        self.details = {"classes": float(classes)}
        for n in {self.passes, *self.also}:
            parts, end = aetta_parts(predicted, dropped[:n]), "" if n == self.passes else f"_{n}"
            self.details |= {
                f"disagreement{end}": float(parts[0]),
                f"balance{end}": float(parts[1]),
            }
        before = float(disagreement) if self.average is None else self.average
        self.average = smoothed(error, before, self.weight)
        if self.passes > 1:
            each = 1 - (predicted == own.argmax(-1)).float().mean(-1)
            errors = weighted_error(each, balance, classes, self.alpha)
            self.band = around(1 - self.average, Z * float(errors.std()))
        return 1 - self.average


class DropoutCalibration(Observer):
    """Collects the data of a calibration plot, binned by the confidence of the mean softmax under dropout.

    It uses AETTA's passes (Lee et al. 2024, fig. 3), so it costs almost nothing. At the end of a run it
    writes dropout_calibration_AETTA.npz to the run's folder: for each bin of confidence the number of
    images, the number of correct predictions, and the sums of the confidence and of the
    `corrected_confidence`. Images without a label are ignored.
    """

    STATE = ("sums",)

    def __init__(self) -> None:
        self.sums = torch.zeros(len(SUMS), BINS, dtype=torch.float64)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.heard = only("AETTA", callbacks_of(trainer), self.name, "mean_softmax")

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        aetta = self.heard
        if aetta.mean_softmax is not None:
            labels = outputs["labels"]
            if len(labels) != len(aetta.mean_softmax):  # AETTA uses only the finite images
                labels = labels[finite_images(batch.images)]
            self.add(aetta.mean_softmax, labels, aetta.details["balance"], aetta.alpha)

    def add(self, mean: Tensor, labels: Tensor, balance: float, alpha: float = 3.0) -> None:
        """Count a batch: its mean softmax [B,C], labels [B], and the balance of its predictions."""
        known = labels >= 0
        confidence, classes = mean[known].double().cpu().max(1)
        corrected = corrected_confidence(confidence, balance, mean.shape[1], alpha)
        right = (classes == labels[known].cpu()).double()
        place = (confidence * BINS).long().clamp(max=BINS - 1)
        values = torch.stack([torch.ones_like(right), confidence, right, corrected])
        self.sums.index_add_(1, place, values)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        named = zip(SUMS, self.sums.numpy(), strict=True)
        save_arrays(trainer, CALIBRATION.format("AETTA"), **dict(named))
