"""CalibratedConfidence: the mean of confidences that are calibrated on source images, after CBPE."""

from typing import Any

import numpy as np
from torch import Tensor

from .. import HoldfastError
from ..labelled_images import LabelledImages
from .functional.bands import Band, sampling_band
from .functional.confidence import fit_isotonic, fit_temperature, max_confidence, probabilities
from .source_fit import SourceFitted

Array = np.ndarray
MAPS = ("isotonic", "temperature")


class CalibratedConfidence(SourceFitted):
    """The mean probability of being right, from calibrated confidence (NannyML's CBPE).

    The map from the largest probability to correctness is fitted to source images; it is biased under some
    shifts, and if adaptation makes the model over-confident. The band is the sampling error.

    Args:
        source: see `SourceFitted`.
        images: see there.
        window: see there.
        calibration: "isotonic" regression, or softmax(z / T) with the best "temperature" T.
    """

    def __init__(
        self,
        source: LabelledImages,
        images: int = 1000,
        window: int = 1,
        calibration: str = "isotonic",
    ) -> None:
        super().__init__(source, images, window)
        if calibration not in MAPS:
            raise HoldfastError(
                f"calibration={calibration} is unknown. Choose from {', '.join(MAPS)}."
            )
        self.calibration = calibration

    def fit(self, logits: Array, labels: Array) -> Any:
        if self.calibration == "temperature":
            return fit_temperature(logits, labels)
        confidence = max_confidence(probabilities(logits))
        return fit_isotonic(confidence, logits.argmax(1) == labels)

    def judge(self, logits: Tensor) -> tuple[float, Band]:
        if self.calibration == "temperature":
            right = max_confidence(probabilities(logits.numpy(), self.fitted))
        else:
            right = np.interp(max_confidence(probabilities(logits.numpy())), *self.fitted)
        return float(right.mean()), sampling_band(right)
