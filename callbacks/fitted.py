"""Estimators from the logits of a batch, most of them fitted to labelled source images."""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from .. import HoldfastError, in_range
from ..batch import LabelledImages
from .estimator import AccuracyEstimator, at_most, finite, source_outputs
from .functional import confidence as cf
from .functional.bands import Band, prediction_band, sampling_band
from .functional.scores import agreement, mano, mean_entropy, nuclear_norm, softmax_score
from .protocols import Adapting, Streaming

Array = np.ndarray


class SoftmaxScore(AccuracyEstimator):
    """The mean confidence max softmax(z / T) (Lee et al. 2024, baseline; T is fixed, not fitted)."""

    def __init__(self, temperature: float = 2.0) -> None:
        self.temperature = temperature

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return softmax_score(finite(method.predict(images)), self.temperature)


class _Fitted(AccuracyEstimator):
    """Estimates from the logits of a batch, by a model that is fitted before the first step."""

    STATE: ClassVar[tuple[str, ...]] = ("fitted",)
    fitted: Any = None  # plain values and tensors

    @abstractmethod
    def prepare(self, method: Adapting, images: Tensor) -> Any:
        """Fit what `judge` needs before the first step, for batches like `images` [B,3,H,W]."""

    @abstractmethod
    def judge(self, logits: Tensor) -> tuple[float, Band]:
        """Accuracy in [0,1] and its band, from logits [B,C]."""

    def estimate(self, method: Adapting, images: Tensor) -> float:
        if self.fitted is None:
            self.fitted = self.prepare(method, images)
        accuracy, self.band = self.judge(finite(method.predict(images)).float().cpu())
        return accuracy


# ---- fitted to source images (`DatasetEstimates` has some of them for a whole data set) -------------


class _SourceFitted(_Fitted):
    """Fits to logits and labels of source images. The band is the sampling error of the estimate.

    Args:
        source: labelled images that the model was not trained on.
        images: their number; a fixed random sample.
    """

    def __init__(self, source: LabelledImages, images: int = 1000) -> None:
        self.source, self.images = source, at_most(images, source)

    @abstractmethod
    def fit(self, logits: Array, labels: Array) -> Any:
        """Fit what `right` needs to logits [n,C] and labels [n] of source images."""

    @abstractmethod
    def right(self, logits: Array) -> Array:
        """The probability [B] that each prediction is right, or their mean as a scalar."""

    def prepare(self, method: Adapting, images: Tensor) -> Any:
        logits, labels = source_outputs(method, self.source, self.images, self.name)
        return self.fit(logits.float().numpy(), labels.numpy())

    def judge(self, logits: Tensor) -> tuple[float, Band]:
        right = self.right(logits.numpy())
        return float(right.mean()), sampling_band(np.broadcast_to(right, len(logits)))


class DoC(_SourceFitted):
    """Accuracy on source images plus the change of the mean confidence (Guillory et al. 2021)."""

    def fit(self, logits: Array, labels: Array) -> float:
        accuracy = float((logits.argmax(1) == labels).mean())
        return accuracy - float(cf.max_confidence(cf.probabilities(logits)).mean())

    def right(self, logits: Array) -> Array:
        confidence = float(cf.max_confidence(cf.probabilities(logits)).mean())
        return np.clip(self.fitted + confidence, 0, 1)


class ATC(_SourceFitted):
    """The share of images whose negative entropy reaches a threshold (Garg et al. 2022, ATC-NE).

    The share of source images below the threshold is the model's error on them.
    """

    def fit(self, logits: Array, labels: Array) -> float:
        scores = cf.negative_entropy(cf.probabilities(logits))
        return cf.threshold(scores, logits.argmax(1) == labels)

    def right(self, logits: Array) -> Array:
        return (cf.negative_entropy(cf.probabilities(logits)) >= self.fitted).mean()


class CalibratedConfidence(_SourceFitted):
    """The mean probability of being right, from calibrated confidence (NannyML's CBPE).

    The map from the largest probability to correctness is an isotonic regression on source images; it is
    biased under some shifts, and if adaptation makes the model over-confident.
    """

    def fit(self, logits: Array, labels: Array) -> list[list[float]]:
        confidence = cf.max_confidence(cf.probabilities(logits))
        return cf.fit_isotonic(confidence, logits.argmax(1) == labels)

    def right(self, logits: Array) -> Array:
        return np.interp(cf.max_confidence(cf.probabilities(logits)), *self.fitted)


# ---- fitted to corruptions of source images -------------------------------------------------------


class _LineFitted(_Fitted):
    """Maps the score of a batch to accuracy by a line fitted to synthetic corruptions of source images.

    Each batch of `stream`, of the run's batch size, is a point: its score and its accuracy. The
    band is the line's prediction interval.

    Args:
        stream: labelled, such as `Corrupted` images from the source that the model was not trained on.
        images: number of images of the stream to use, from its `start`; None: all.
    """

    def __init__(self, stream: LightningDataModule, images: int | None = None) -> None:
        in_range(1, images=images)
        if not isinstance(stream, Streaming) or (images is None and stream.images is None):
            raise HoldfastError(
                f"{self.name} needs a labelled stream with an end, or images=NUMBER, not "
                f"{type(stream).__name__}. Pass, for example, Corrupted(IMAGES, each=64)."
            )
        self.stream, self.images = stream, images

    @abstractmethod
    def score(self, logits: Tensor) -> float:
        """The score of logits [B,C]."""

    def prepare(self, method: Adapting, images: Tensor) -> list[tuple[float, float]]:
        first, points = self.stream.start, []
        count = (self.stream.images or 0) - first if self.images is None else self.images
        for index in torch.arange(first, first + count).split(len(images)):
            batch = self.stream.batch(index)
            if len(index) == len(images) and (batch.labels >= 0).all():
                logits = finite(method.predict(batch.images.to(images))).float().cpu()
                right = agreement(logits.argmax(1), batch.labels)
                points.append((self.score(logits), float(right)))
        if len({score for score, _ in points}) < 3:
            raise HoldfastError(
                f"{self.name} needs three labelled batches of {len(images)} images with different scores, "
                f"but the stream has {len(points)}. Pass a stream with more images or corruptions."
            )
        return points

    def judge(self, logits: Tensor) -> tuple[float, Band]:
        x, y = np.array(self.fitted).T
        accuracy, low, high = np.clip(prediction_band(x, y, self.score(logits)), 0, 1)
        return float(accuracy), (float(low), float(high))


class MaNo(_LineFitted):
    """Accuracy from the matrix norm of normalised logits, by a fitted line (Xie et al. 2024, p = 4)."""

    def score(self, logits: Tensor) -> float:
        return float(mano(logits))


class NuclearNorm(_LineFitted):
    """Accuracy from the nuclear norm of a batch's probabilities, by a fitted line (Deng et al. 2023).

    The norm is large if predictions are certain and spread over many classes: correlated labels lower it.
    """

    def score(self, logits: Tensor) -> float:
        return float(nuclear_norm(logits))


class Concentration(_LineFitted):
    """Accuracy from the entropy of the mean softmax, divided by ln C, by a fitted line.

    Predictions concentrate on few classes as a model collapses (ASR resets by a similar measure, 2026),
    and also on streams that show few classes at a time.
    """

    def score(self, logits: Tensor) -> float:
        return float(mean_entropy(logits, floor=1e-12)) / math.log(logits.shape[1])
