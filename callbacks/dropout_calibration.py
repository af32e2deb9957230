"""DropoutCalibration: the accuracy of the mean prediction under dropout, by its confidence."""

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import HoldfastError, in_range
from ..run_folder import CALIBRATION
from .aetta import AETTA
from .declared_state import DeclaredState
from .functional.scores import corrected_confidence, finite_images
from .observer import Observer
from .protocols import callbacks_of
from .record import save_arrays

SUMS = ("images", "confidence", "accuracy", "corrected")


class DropoutCalibration(DeclaredState, Observer):
    """Collects the data of a calibration plot, binned by the confidence of the mean softmax under dropout.

    It uses AETTA's passes (Lee et al. 2024, fig. 3), so it costs almost nothing. At the end of a run it
    writes dropout_calibration_AETTA.npz to the run's folder: for each bin of confidence the number of
    images, the number of correct predictions, and the sums of the confidence and of the
    `corrected_confidence`. Images without a label are ignored.

    Args:
        estimator: the name of the AETTA to use.
        bins: number of bins of equal width over [0,1].
    """

    STATE = ("sums",)

    def __init__(self, estimator: str = "AETTA", bins: int = 10) -> None:
        in_range(1, bins=bins)
        self.estimator, self.bins = estimator, bins
        self.sums = torch.zeros(len(SUMS), bins, dtype=torch.float64)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.heard(trainer)  # fail early

    def heard(self, trainer: Trainer) -> AETTA:
        """The AETTA of that name among the run's estimators. Raises HoldfastError if there is none."""
        listed = callbacks_of(trainer)
        found = [c for c in listed if isinstance(c, AETTA) and c.name == self.estimator]
        if len(found) != 1:
            raise HoldfastError(
                f"DropoutCalibration reads {self.estimator}. Add an AETTA of that name to the "
                "Trainer."
            )
        return found[0]

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        aetta = self.heard(trainer)
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
        place = (confidence * self.bins).long().clamp(max=self.bins - 1)
        values = torch.stack([torch.ones_like(right), confidence, right, corrected])
        self.sums.index_add_(1, place, values)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        named = zip(SUMS, self.sums.numpy(), strict=True)
        save_arrays(trainer, CALIBRATION.format(self.estimator), **dict(named))
