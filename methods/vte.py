"""VTE: vision-text-space ensemble."""

from typing import Any

import torch
from torch import Tensor, nn

from .. import in_range
from .functional import most_certain
from .parts.augmix import crops, with_views
from .source import Source


class VTE(Source):
    """Averages the most certain views of each image, and the prompts of each class (Döbler et al. 2024).

    The text side of the ensemble is the backbone's: a mean over templates, such as the 80 of
    `open_clip/ViT-B-32.openai`. A score is the mean of the views' logits, which for a two-tower model is
    the cosine of their mean feature, up to its length. No parameter is trained.

    Args:
        views: number of views of each image, random crops and flips, including the image itself.
        share: share of the views, the most certain ones, that count.
    """

    def __init__(
        self, backbone: str | nn.Module, views: int = 64, share: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(2, views=views)
        in_range(0, 1, share=share)
        self.views, self.share = views, share

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """Means [B,C] of the logits of each image's most certain views, for images [B,3,H,W]."""
        generator, rows = self.generator("views"), []
        for image in images.split(1):
            logits = self.logits(network, with_views(image, self.views, generator, crops))
            rows.append(logits[most_certain(logits, self.share)].mean(0))
        return torch.stack(rows)
