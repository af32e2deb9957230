"""DoC: the difference of confidences, window by window."""

import numpy as np
from torch import Tensor

from .functional.bands import Band, sampling_band
from .functional.confidence import average_confidence, probabilities
from .source_fit import SourceFitted

Array = np.ndarray


class DoC(SourceFitted):
    """Accuracy on source images plus the change of the mean confidence since then (Guillory et al. 2021).

    `DatasetEstimates` computes it once for a whole data set. The band is the sampling error of this
    accuracy.
    """

    def fit(self, logits: Array, labels: Array) -> float:
        accuracy = float((logits.argmax(1) == labels).mean())
        return accuracy - average_confidence(probabilities(logits))

    def judge(self, logits: Tensor) -> tuple[float, Band]:
        found = self.fitted + average_confidence(probabilities(logits.numpy()))
        accuracy = float(np.clip(found, 0, 1))
        return accuracy, sampling_band(np.full(len(logits), accuracy))
