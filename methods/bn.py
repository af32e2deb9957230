"""Adaptation of batch normalisation statistics."""

from typing import Any

from torch import nn

from .. import HoldfastError, in_range
from .base import TTAMethod
from .parts.norm import BlendedBatchNorm, batch_norms, replace_batch_norms


class BNAdapt(TTAMethod):
    """Normalises each batch with its own statistics and learns nothing (Schneider et al. 2020).

    By default the source statistics are not used, as in CCC.

    Args:
        prior: weight of the source statistics, as a number of images (N); the batch's weight is its size n.
        alpha: a fixed weight of the batch's statistics instead (BN-alpha; often 0.1).
    """

    adapts = "nothing"
    stored = False  # see `BlendedBatchNorm`

    def __init__(
        self,
        backbone: str | nn.Module,
        prior: float = 0.0,
        alpha: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(0, 1, alpha=alpha)
        in_range(0, prior=prior)
        self.prior, self.alpha = prior, alpha

    def prepare(self) -> None:
        if not any(batch_norms(self.backbone)):
            raise HoldfastError(
                "BNAdapt replaces the statistics of batch normalisation, and this backbone has "
                "none. Choose a backbone with BatchNorm layers, or Source."
            )
        if self.prior == 0 and self.alpha is None:
            super().prepare()
        else:
            weights = {"prior": self.prior, "alpha": self.alpha}
            replace_batch_norms(self.backbone, BlendedBatchNorm, stored=self.stored, **weights)
