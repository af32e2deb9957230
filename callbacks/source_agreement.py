"""SourceAgreement: agreement of the adapting model with its source."""

from torch import Tensor

from .estimator import AccuracyEstimator, predicted
from .functional.scores import agreement
from .protocols import Adapting


class SourceAgreement(AccuracyEstimator):
    """Share of the batch on which the model agrees with its source; costs one forward pass.

    It is 1 before the first step. It is low after a collapse, but also where adaptation improves a poor
    source, so its changes are more informative than its value.
    """

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return agreement(method.source_logits(images).argmax(1), predicted(method, images))
