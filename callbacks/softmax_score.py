"""SoftmaxScore: the mean confidence as an estimate of accuracy."""

from torch import Tensor

from .estimator import AccuracyEstimator, finite
from .functional.scores import softmax_score
from .protocols import Adapting


class SoftmaxScore(AccuracyEstimator):
    """The mean confidence max softmax(z / T) (Lee et al. 2024, baseline; T is fixed, not fitted)."""

    def __init__(self, temperature: float = 2.0) -> None:
        self.temperature = temperature

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return softmax_score(finite(method.predict(images)), self.temperature)
