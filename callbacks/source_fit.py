"""Estimators that are fitted to labelled source images before the first step."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from .. import HoldfastError, in_range
from ..labelled_images import LabelledImages
from .estimator import AccuracyEstimator, finite, source_outputs
from .functional.bands import Band, prediction_band
from .functional.scores import agreement
from .protocols import Adapting, Streaming

Array = np.ndarray


class Fitted(AccuracyEstimator):
    """Estimates from the logits of the last `window` batches since a reset, with a fitted model."""

    STATE: ClassVar[tuple[str, ...]] = ("fitted", "logits")

    def __init__(self, window: int = 1) -> None:
        in_range(1, window=window)
        self.window = window
        self.fitted: Any = None  # plain values and tensors
        self.logits: list[Tensor] = []

    @abstractmethod
    def prepare(self, method: Adapting, images: Tensor) -> Any:
        """Fit what `judge` needs before the first step, for batches like `images` [B,3,H,W]."""

    @abstractmethod
    def judge(self, logits: Tensor) -> tuple[float, Band]:
        """Accuracy in [0,1] and its band, from logits [n,C]."""

    def estimate(self, method: Adapting, images: Tensor) -> float:
        if self.fitted is None:
            self.fitted = self.prepare(method, images)
        before = self.logits if method.steps_since_reset else []
        logits = finite(method.predict(images)).float().cpu()
        self.logits = [*before, logits][-self.window :]
        accuracy, self.band = self.judge(torch.cat(self.logits))
        return accuracy


class SourceFitted(Fitted):
    """Fits to logits and labels of source images.

    Args:
        source: labelled images that the model was not trained on.
        images: their number; a fixed random sample.
        window: number of batches that one estimate uses.
    """

    def __init__(self, source: LabelledImages, images: int = 1000, window: int = 1) -> None:
        super().__init__(window)
        in_range(1, images=images, source=len(source))
        self.source, self.images = source, min(images, len(source))

    @abstractmethod
    def fit(self, logits: Array, labels: Array) -> Any:
        """Fit what `judge` needs to logits [n,C] and labels [n] of source images."""

    def prepare(self, method: Adapting, images: Tensor) -> Any:
        logits, labels = source_outputs(method, self.source, self.images, self.name)
        return self.fit(logits.float().numpy(), labels.numpy())


class LineFitted(Fitted):
    """Maps the score of a batch to accuracy by a line fitted to synthetic corruptions of source images.

    Each batch of `stream`, of the run's batch size, is a point: its score and its accuracy. The
    band is the line's prediction interval.

    Args:
        stream: labelled, such as `Corrupted` images from the source that the model was not trained on.
        images: number of images of the stream to use, from its `start`; None: all.
    """

    def __init__(self, stream: LightningDataModule, images: int | None = None) -> None:
        super().__init__()
        in_range(1, images=images)
        if not isinstance(stream, Streaming) or (images is None and stream.images is None):
            raise HoldfastError(
                f"{self.name} needs a labelled stream with an end, or images=NUMBER, and was given "
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
                f"and the stream gives {len(points)}. Pass a stream with more images or corruptions."
            )
        return points

    def judge(self, logits: Tensor) -> tuple[float, Band]:
        x, y = np.array(self.fitted).T
        found, low, high = np.clip(prediction_band(x, y, self.score(logits)), 0, 1)
        return float(found), (float(low), float(high))
