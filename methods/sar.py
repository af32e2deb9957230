"""SAR: sharpness-aware and reliable entropy minimisation."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import SGD

from ..callbacks.recovery import Recovery
from ..callbacks.resets import MRS
from .base import TTAMethod
from .functional import first_rows, opinion_entropy, softmax_entropy
from .optimizers import OptimizerCallable, sam_step


class SAR(TTAMethod):
    """Minimises the entropy of confident samples, and its sharpness (Niu et al. 2023).

    Samples count if their entropy is below E0 = `entropy_factor` ln C, in the first pass and again in
    the pass at the worst weights within `rho`. The model is reset when the average loss becomes too
    small: see `MRS`, which also has the official code's average that resets do not clear.

    Args:
        entropy_factor: E0 as a share of the largest entropy ln C.
        rho: radius of the sharpness-aware step.
        skip_top: leave the top layers' scale and shift alone.
        keep_momentum: do not reset the momentum, as in the official code (but not in the paper).
        come: the entropy of opinions in place of probabilities (COME, Zhang et al. 2025).
    """

    workloads: ClassVar = {"": {"entropy_factor": 1.01}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        entropy_factor: float = 0.4,
        rho: float = 0.05,
        skip_top: bool = True,
        keep_momentum: bool = False,
        come: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.entropy = opinion_entropy if come else softmax_entropy
        self.entropy_factor, self.rho = entropy_factor, rho
        self.skip_top, self.keep_momentum = skip_top, keep_momentum

    def paper_recovery(self) -> Recovery:
        return MRS()

    def forget_steps(self) -> None:
        if not self.keep_momentum:
            super().forget_steps()

    def update(self, images: Tensor) -> Tensor:
        logits = self(images)
        entropy, margin = self.entropy(logits), self.entropy_factor * math.log(logits.shape[1])
        reliable = entropy.detach() < margin
        number, counts = reliable.sum(), [0, 0]  # reliable samples, and those that are so again

        def worst_entropy() -> Tensor:
            worst = self.entropy(self(images))
            again = reliable & (worst.detach() < margin)
            counts[:] = torch.stack([number, again.sum()]).tolist()
            worst = worst[first_rows(again, counts[1])]
            return worst.mean() if counts[1] else worst.sum()

        assert self.optimizer is not None
        # Their mean entropy, before the host knows their number. Without any only the momentum moves, as
        # in the official code.
        loss = torch.where(reliable, entropy, 0).sum() / number.clamp_min(1)
        worst = sam_step(self.optimizer, loss, worst_entropy, self.rho)
        self.trace["selected"] = counts[0]
        if counts[0]:
            self.trace["first_loss"] = entropy.detach()[first_rows(reliable, counts[0])].mean()
        if counts[1]:
            self.trace["loss"] = worst
        return logits
