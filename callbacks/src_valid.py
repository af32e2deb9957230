"""SrcValid: the accuracy on source images that were put aside."""

import torch
from torch import Tensor

from ..datamodules import ImageSource
from .estimator import AccuracyEstimator, predicted
from .protocol import Adapting
from .scores import agreement


class SrcValid(AccuracyEstimator):
    """The accuracy of the current model on labelled source images (Lee et al. 2024, baseline).

    The images go through the model as one batch, so that batch statistics are theirs.

    Args:
        source: where the images come from; should be none that the model was trained on.
        images: their number.
    """

    def __init__(self, source: ImageSource, images: int = 1000) -> None:
        self.source = source
        self.images = min(images, len(source))
        self._held: tuple[Tensor, Tensor] | None = None

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        if self._held is None:
            index = torch.arange(self.images)
            held, labels = self.source.load(index, index)
            held = held.to(images.device).float() / 255
            self._held = held.to(images.dtype), labels.to(images.device)
        return agreement(predicted(method, self._held[0]), self._held[1])
