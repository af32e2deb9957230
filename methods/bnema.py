"""BN-EMA: a moving average of batch statistics."""

from typing import Any

import torch
from torch import Tensor, nn

from .bn import BNAdapt
from .parts.norm import training


class BNEMA(BNAdapt):
    """Normalises with an exponential moving average of batch statistics, and learns nothing.

    The average starts at the source's statistics and is updated with each batch before it normalises that
    batch, so it forgets the source; BNAdapt(alpha=...) always mixes with the source's statistics.

    Args:
        alpha: how far the average follows each batch.
    """

    stored = True

    def __init__(self, backbone: str | nn.Module, alpha: float = 0.1, **kwargs: Any) -> None:
        super().__init__(backbone, alpha=alpha, **kwargs)

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        with training(self.backbone):
            return self(images)
