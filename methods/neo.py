"""NEO: no-optimisation test-time adaptation."""

from typing import Any

import torch
from torch import Tensor, nn

from .. import in_range
from .parts.by_update import PredictsByUpdate
from .parts.head import head
from .source import Source


class NEO(PredictsByUpdate, Source):
    """Moves the mean of the stream's features to the origin (Murphy et al. 2026).

    Each batch enters the mean before it is scored. The mean never forgets, and no weight changes. The
    first prediction for a stream of single images is the classifier's bias, whatever the image.

    Args:
        alpha: how far the mean follows each batch, from 0 on (NEO-Continual); None: the mean of all images.
    """

    def __init__(
        self, backbone: str | nn.Module, alpha: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(0, 1, alpha=alpha)
        self.alpha = alpha

    def fresh_state(self) -> dict[str, Any]:
        weight, _ = head(self.backbone)
        return {"centre": weight.new_zeros(weight.shape[1]), "images": 0}

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        features, logits = self.features(self.backbone, images)
        centre, count = self.state["centre"], self.state["images"] + len(images)
        share = len(images) / count if self.alpha is None else self.alpha
        centre = centre.lerp(features.mean(0), share)
        self.state = {**self.state, "centre": centre, "images": count}
        weight, _ = head(self.backbone)
        return logits - weight @ centre
