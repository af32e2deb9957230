"""SourceAgreement: how often the adapting model and its source agree."""

from torch import Tensor

from ..functional.scores import agreement
from ..protocols import Adapting
from .estimator import AccuracyEstimator, predicted


class SourceAgreement(AccuracyEstimator):
    """Share of the batch on which the model predicts as its source does, a forward pass more.

    It is 1 before the first step, and low both where the model has collapsed and where adaptation has
    improved on a poor source; so its course tells more than its value.
    """

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return agreement(method.source_logits(images).argmax(1), predicted(method, images))
