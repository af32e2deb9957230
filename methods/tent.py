"""Tent: entropy minimisation."""

from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from .base import TTAMethod
from .functional import opinion_entropy, softmax_entropy
from .optimizers import OptimizerCallable


class Tent(TTAMethod):
    """Minimises the mean prediction entropy (Wang et al. 2021, Eq. 1).

    Args:
        come: minimise the entropy of opinions instead of probabilities (COME, Zhang et al. 2025).
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        come: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.entropy = opinion_entropy if come else softmax_entropy

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return self.entropy(logits).mean()
