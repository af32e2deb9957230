"""Plain test-time augmentation."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .. import in_range
from .parts.augmix import augmix_views
from .source import Source


class TTAug(Source):
    """Averages the source model's predictions over random views of each image; no weight changes.

    It shows the effect of MEMO's views without its updates. It returns logarithms of the mean
    probabilities, whose softmax equals these. No parameter is trained.

    Args:
        views: number of views of each image, by AugMix (`augmix_views`), in addition to the image.
    """

    def __init__(self, backbone: str | nn.Module, views: int = 32, **kwargs: Any) -> None:
        super().__init__(backbone, **kwargs)
        in_range(1, views=views)
        self.views = views

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """Logarithms [B,C] of the mean probabilities over the images [B,3,H,W] and their views."""
        generator = self.generator("views")
        logs = [self.logits(network, images).log_softmax(1)]
        for _ in range(self.views):
            logs.append(self.logits(network, augmix_views(images, generator)).log_softmax(1))
        return torch.stack(logs).logsumexp(0) - math.log(len(logs))
