"""AETTA's ablations: other numbers of dropout passes (Figure 5), and their calibration (Figure 3)."""

from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .... import in_range
from ....callbacks.aetta import AETTA
from ....callbacks.alarm import only
from ....callbacks.functional.scores import aetta_parts, corrected_confidence
from ....callbacks.observer import Observer
from ....callbacks.protocols import Adapting, callbacks_of
from ....callbacks.record import save_arrays
from ....run_folder import CALIBRATION
from ....tensors import finite_images

SUMS = ("images", "confidence", "accuracy", "corrected")
BINS = 10  # of equal width over [0,1]


class AETTAPasses(AETTA):
    """AETTA, which also records the parts of its error for other numbers of passes.

    Args:
        extra_passes: numbers of passes N, for which `disagreement_N` and `balance_N` of the first N passes
            are columns of the record; `aetta_estimates` turns these into estimates.
        **kwargs: see `AETTA`.
    """

    name = "AETTA"

    def __init__(self, extra_passes: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        in_range(1, extra_passes=min(extra_passes, default=None))
        self.extra_passes = tuple(extra_passes)

    def predictions(self, method: Adapting, images: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Logits [B,C] of the images [B,3,H,W], and those of all passes that are wanted [N,B,C]."""
        return super().predictions(method, images, max(count, *self.extra_passes, 1))

    def judge(self, logits: Tensor, dropped: Tensor) -> float | None:
        """The estimate from the first of the passes, and the columns of the other numbers of passes."""
        estimate = super().judge(logits, dropped[: self.passes])
        for n in self.extra_passes:
            if self.details and n != self.passes:
                disagreement, balance = aetta_parts(logits.argmax(1), dropped[:n])
                self.details[f"disagreement_{n}"] = float(disagreement)
                self.details[f"balance_{n}"] = float(balance)
        return estimate


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
        self.aetta = only("AETTA", callbacks_of(trainer), self.name, "mean_softmax")

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        aetta = self.aetta
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
        bins = (confidence * BINS).long().clamp(max=BINS - 1)
        values = torch.stack([torch.ones_like(right), confidence, right, corrected])
        self.sums.index_add_(1, bins, values)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        sums = dict(zip(SUMS, self.sums.numpy(), strict=True))
        save_arrays(trainer, CALIBRATION.format("AETTA"), **sums)
