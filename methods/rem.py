"""REM: ranked entropy minimisation."""

import math
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from .. import in_range
from .base import TTAMethod
from .functional import soft_cross_entropy, softmax_entropy
from .optimizers import OptimizerCallable
from .parts.vit import Tokens


class REM(TTAMethod):
    """Matches predictions of masked and less masked images, and ranks their entropies (Han et al. 2025).

    The patches that the class token attends to most are masked, more and more of them. A prediction from
    fewer patches learns from each one from more patches; its entropy should be the larger one. For vision
    transformers with a class token: those of timm and torchvision, not Swin.

    Args:
        mask: share of the patches that each further prediction leaves out (m).
        levels: number of predictions, the first one of the whole image (n).
        rank_weight: weight of the ranking loss (lambda).
        margin: least difference of the entropies, as a share of ln 1000 for any number of classes.
        skip_top: leave the top layers' scale and shift alone; the final layer's are in any case.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=1e-3),
        mask: float = 0.1,
        levels: int = 3,
        rank_weight: float = 1.0,
        margin: float = 0.0,
        skip_top: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(2, levels=levels)
        in_range(0.001, 0.999 / (levels - 1), mask=mask)
        in_range(0, rank_weight=rank_weight)
        self.mask, self.levels = mask, levels
        self.rank_weight, self.margin, self.skip_top = rank_weight, margin, skip_top

    def prepare(self) -> None:
        self.tokens = Tokens(self.backbone)

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        inside = {id(p) for block in self.tokens.blocks for p in block.parameters()}
        return [p for p in self.norm_affine() if id(p) in inside]

    def update(self, images: Tensor) -> Tensor:
        logits = self.together(self.masked, images)
        self.descend(
            _agreement_loss(logits) + self.rank_weight * _ranking_loss(logits, self.margin)
        )
        return logits[0]

    def masked(self, images: Tensor) -> list[Tensor]:
        """Logits [B,C] from all patches, then from fewer and fewer."""
        with self.tokens.attended() as attentions:
            logits = [self.backbone(images)]
        order = attentions[-1].argsort(1)
        for level in range(1, self.levels):
            with self.tokens.only(order[:, : int(order.shape[1] * (1 - level * self.mask))]):
                logits.append(self.backbone(images))
        return logits


def _agreement_loss(logits: tuple[Tensor, ...]) -> Tensor:
    """The sum over pairs of the mean cross-entropy of later logits [B,C] with earlier ones as targets."""
    pairs = combinations(logits, 2)
    losses = [soft_cross_entropy(later, earlier.detach()).mean() for earlier, later in pairs]
    return torch.stack(losses).sum()


def _ranking_loss(logits: tuple[Tensor, ...], margin: float) -> Tensor:
    """How far entropies of logits [B,C] exceed those of more masked images minus the margin, a scalar."""
    slack = margin * math.log(1000)  # a constant in the official code
    pairs = combinations(map(softmax_entropy, logits), 2)
    losses = [(earlier - later.detach() + slack).relu().mean() for earlier, later in pairs]
    return torch.stack(losses).sum()
