"""RPL: robust pseudo-labelling."""

from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from .base import TTAMethod
from .functional import generalized_cross_entropy
from .optimizers import OptimizerCallable


class RPL(TTAMethod):
    """Learns its own hard predictions with a loss that is robust to wrong labels (Rusak et al. 2022).

    The loss is the generalised cross-entropy (1 - p^q) / q of the predicted class. The teacher that
    predicts is the student itself, as it is before the step.

    Args:
        optimizer: the default is that of CCC's code; the thesis has a learning rate of 5e-3.
        q: exponent of the loss: towards 0 it becomes the cross-entropy, at 1 the mean absolute error.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=5e-4, momentum=0.9),
        q: float = 0.8,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.q = q

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return generalized_cross_entropy(logits, self.q).mean()
