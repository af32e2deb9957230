"""ATC: the share of confident predictions, window by window."""

import numpy as np
from torch import Tensor

from .functional.bands import Band, sampling_band
from .functional.confidence import negative_entropy, probabilities, threshold
from .source_fit import SourceFitted

Array = np.ndarray


class ATC(SourceFitted):
    """The share of images whose negative entropy reaches a threshold (Garg et al. 2022, ATC-NE).

    The share of source images below the threshold is the model's error on them. `DatasetEstimates` computes
    it once for a whole data set. The band is the sampling error of this share.
    """

    def fit(self, logits: Array, labels: Array) -> float:
        return threshold(negative_entropy(probabilities(logits)), logits.argmax(1) == labels)

    def judge(self, logits: Tensor) -> tuple[float, Band]:
        accuracy = float((negative_entropy(probabilities(logits.numpy())) >= self.fitted).mean())
        return accuracy, sampling_band(np.full(len(logits), accuracy))
