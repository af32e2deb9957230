"""Tent: entropy minimisation."""

from typing import Any

from torch import Tensor, nn

from .base import TTAMethod
from .functional import opinion_entropy, softmax_entropy
from .optimizers import OptimizerFactory, sgd


class Tent(TTAMethod):
    """Minimises the mean prediction entropy (Wang et al. 2021, Eq. 1).

    Args:
        optimizer: for the parameters that adapt; default: SGD with learning rate 2.5e-4 and momentum 0.9.
        come: minimise the entropy of opinions instead of probabilities (COME, Zhang et al. 2025).
        **kwargs: see `TTAMethod`.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = sgd,
        come: bool = False,
        **kwargs: Any,
    ) -> None:
        self.entropy = opinion_entropy if come else softmax_entropy
        super().__init__(backbone, optimizer, **kwargs)

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return self.entropy(logits).mean()
