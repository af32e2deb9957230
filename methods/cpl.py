"""CPL: conjugate pseudo-labels."""

from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from .base import TTAMethod
from .functional import conjugate_loss
from .optimizers import OptimizerCallable


class CPL(TTAMethod):
    """Minimises the convex conjugate of the loss that the source was trained with (Goyal et al. 2022).

    That is the PolyLoss -ln p_y + epsilon (1 - p_y) by default, as in CCC, even for models trained
    with cross-entropy, whose conjugate is the entropy (`epsilon=0`).

    Args:
        optimizer: the default is CCC's; the official code has Nesterov momentum.
        epsilon: the PolyLoss coefficient of the source's training: 8 for ImageNet, 6 for CIFAR-10.
        temperature: divides the logits inside the loss.
        rescore: return the logits of a second forward pass, after the step, as the official code does.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=1e-3, momentum=0.9),
        epsilon: float = 8.0,
        temperature: float = 1.0,
        rescore: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.epsilon, self.temperature, self.rescore = epsilon, temperature, rescore

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return conjugate_loss(logits / self.temperature, self.epsilon).mean()

    def update(self, images: Tensor) -> Tensor:
        logits = super().update(images)
        return self.predict(images) if self.rescore else logits
