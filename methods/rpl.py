"""RPL: robust pseudo-labelling."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from .base import TTAMethod
from .functional import generalized_cross_entropy
from .optimizers import OptimizerFactory


def sgd(params: Iterable[nn.Parameter]) -> Optimizer:
    """SGD, learning rate 5e-4, momentum 0.9 (CCC's code; the thesis' text has 5e-3)."""
    return SGD(params, lr=5e-4, momentum=0.9)


class RPL(TTAMethod):
    """Learns its own hard predictions with a loss that is robust to wrong labels (Rusak et al. 2022).

    The loss is the generalised cross-entropy (1 - p^q) / q of the predicted class. The teacher that
    predicts is the student itself, as it is before the step.

    Args:
        optimizer: for the parameters that adapt; default: SGD with learning rate 5e-4 and momentum 0.9.
        q: exponent of the loss: towards 0 it becomes the cross-entropy, at 1 the mean absolute error.
        **kwargs: see `TTAMethod`.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = sgd,
        q: float = 0.8,
        **kwargs: Any,
    ) -> None:
        self.q = q
        super().__init__(backbone, optimizer, **kwargs)

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return generalized_cross_entropy(logits, self.q).mean()
