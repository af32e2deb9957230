"""SLR: soft likelihood ratio."""

from typing import Any

from torch import Tensor, nn
from torch.optim import Adam

from .base import TTAMethod
from .functional import divergence_from_uniform, likelihood_ratio
from .optimizers import OptimizerCallable


class SLR(TTAMethod):
    """Raises the odds of each prediction and keeps the classes in balance (Mummadi et al. 2021).

    The loss is KL(m || uniform) + delta mean(sum_c p_c ln((1 - p_c) / p_c)); the moving average
    m <- kappa m + (1 - kappa) mean(p) begins with the first batch, and the gradient flows through
    this batch's mean. There is no official code.

    Args:
        optimizer: the paper lowers the learning rate by a cosine over its five epochs; here it is constant.
        kappa: weight of the past in m.
        delta: weight of the likelihood ratio.
        skip_top: leave the top layers' scale and shift alone, against ever growing logits.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=6e-4),
        kappa: float = 0.9,
        delta: float = 0.025,
        skip_top: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.kappa, self.delta, self.skip_top = kappa, delta, skip_top

    def fresh_state(self) -> dict[str, Any]:
        return {"mean_probs": None}

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        mean_probs, past = logits.softmax(1).mean(0), self.state["mean_probs"]
        if past is not None:
            mean_probs = self.kappa * past + (1 - self.kappa) * mean_probs
        self.state["mean_probs"] = mean_probs.detach()
        return divergence_from_uniform(mean_probs) + self.delta * likelihood_ratio(logits).mean()
