"""SANTA: source anchoring network and target alignment."""

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.optim import SGD

from .. import in_range
from .functional import soft_cross_entropy
from .optimizers import OptimizerCallable
from .parts.contrast import ContrastMethod, class_sums
from .source_data import labelled


class SANTA(ContrastMethod):
    """Stays near the source model, and pulls images towards source prototypes (Chakrabarty et al. 2023).

    Predictions on the images and on a view of them are aligned with the source model's, which sees the same
    batch statistics. Each image is contrasted with its view and the nearest class prototype. The projector
    starts at random values, which depend on the seed. Classes without source images have no prototype.

    Args:
        target_weight: weight of the cross-entropy with the source model.
        contrast_weight: weight of the contrastive loss.
        temperature: temperature of the contrastive loss.
        projection: width of the projector.
        source_images: number of source images, in whole batches, which the prototypes come from.
        source_data: these, with labels (its test loader); None: the first ones of the stream, with the
            source model's predictions for labels.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=0.01, momentum=0.9, nesterov=True
        ),
        target_weight: float = 1.0,
        contrast_weight: float = 1.0,
        temperature: float = 0.1,
        projection: int = 128,
        source_images: int = 100_000,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, projection=projection, source_images=source_images)
        self.target_weight, self.contrast_weight = target_weight, contrast_weight
        self.temperature, self.projection = temperature, projection
        self.source_images, self.source_data = source_images, source_data

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """The mean features [C,D] of each class."""
        sums: Any = 0.0
        counts: Any = 0.0
        for images, labels in batches:
            with torch.no_grad():
                features, logits = self.features(self.backbone, images)
            more = class_sums(features, labelled(labels, logits), logits.shape[1])
            sums, counts = sums + more[0], counts + more[1]
        return self.prototypes(sums, counts)

    def update(self, images: Tensor) -> Tensor:
        features, logits = self.features(self.backbone, images)
        features_again, again = self.features(self.backbone, self.view(images))
        anchor = self.source_logits(images)
        apart = 0.5 * soft_cross_entropy(anchor, logits) + 0.5 * soft_cross_entropy(anchor, again)
        contrast = self.contrast(features, features_again)
        self.descend(self.target_weight * apart.mean() + self.contrast_weight * contrast)
        return logits
