"""SrcValid: the accuracy on held-out source images."""

from torch import Tensor

from .. import in_range
from ..labelled_images import LabelledImages
from .estimator import AccuracyEstimator, drawn_indices, predicted, source_images
from .functional.scores import agreement
from .protocols import Adapting


class SrcValid(AccuracyEstimator):
    """The accuracy of the current model on labelled source images (Lee et al. 2024, baseline).

    The images form one batch, so batch statistics are computed from them alone.

    Args:
        source: labelled images that the model was not trained on.
        images: their number; a fixed random sample.
    """

    def __init__(self, source: LabelledImages, images: int = 1000) -> None:
        in_range(1, images=images, source=len(source))
        self.source = source
        self.images = min(images, len(source))
        self._held: tuple[Tensor, Tensor] | None = None

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        if self._held is None:
            index = drawn_indices(self.source, self.images)
            self._held = source_images(self.source, index, images.device, images.dtype)
        return agreement(predicted(method, self._held[0]), self._held[1])
