"""The base of estimators: accuracy on a batch without labels."""

import math
import random
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

from .. import HoldfastError, in_range
from ..batch import LabelledImages
from .functional.bands import Band
from .observer import InPredictions, only_finite, undisturbed
from .protocols import Adapting, method_of


class NotFinite(ArithmeticError):
    """Not all logits are finite."""


class AccuracyEstimator(InPredictions, ABC):
    """Estimates the accuracy on each batch before the method adapts to it.

    Subclasses override `estimate`; `latest` is the last estimate in [0,1], or None. Estimators that
    quantify their uncertainty set `band`, which should contain the batch's accuracy in 95 % of batches. The
    run stays bit for bit the same: random numbers come from separate generators, and weights, statistics
    and optimizer are unchanged when `estimate` returns. The record has the absolute error of each estimate,
    where labels are known.
    """

    STATE: ClassVar[tuple[str, ...]] = ("latest", "band")
    latest: float | None = None
    band: Band | None = None  # of the last estimate, in [0,1]
    not_finite = False  # all images, the logits or the estimate are not finite: no `latest`
    of_batches = True  # False: the estimates do not refer to the current batch

    @abstractmethod
    def estimate(self, method: Adapting, images: Tensor) -> Tensor | float | None:
        """The estimated accuracy in [0,1] of `method` on images [B,3,H,W]; None if there is none.

        Called without gradients; what needs them uses `torch.enable_grad`, as `AdvPerturb` does. Take
        classes from `predicted`, or logits through `finite`, so that a broken model gets no estimate.
        """

    def watch(self, method: Adapting, images: Tensor) -> float | None:
        """The estimate for these images [B,3,H,W], before `method.adapt(images)`; for custom loops."""
        method.check_images(images)
        method.recover()
        self.band = None
        images = only_finite(images)
        answer: Tensor | float | None = math.nan
        if self.of_batches and not len(images):
            self.details = {}
        else:
            with suppress(NotFinite), undisturbed(images.device):
                answer = self.estimate(method, images)
        self.latest = None if answer is None else float(answer)
        self.not_finite = self.latest is not None and not math.isfinite(self.latest)
        if self.latest is None or self.not_finite:
            self.latest = self.band = None
        return self.latest

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        with trainer.precision_plugin.test_step_context():
            self.watch(method_of(pl_module), batch.images)
        # Resets depend on these values, so ranks that share a batch must not differ by a rounding error.
        answer = self.latest, self.not_finite, self.band
        self.latest, self.not_finite, self.band = trainer.strategy.broadcast(answer)

    def columns(self) -> dict[str, float]:
        ends = {} if self.band is None else dict(zip(("_low", "_high"), self.band, strict=True))
        estimate = {} if self.latest is None else {"": self.latest, **ends}
        return {f"{self.name}{end}": v for end, v in estimate.items()} | super().columns()


def finite(logits: Tensor) -> Tensor:
    """The logits [B,C], if they are all finite.

    Raises:
        NotFinite: if they are not; `AccuracyEstimator.watch` then has no estimate.
    """
    if not logits.isfinite().all():
        raise NotFinite
    return logits


def predicted(method: Adapting, images: Tensor) -> Tensor:
    """Classes [B] that the method predicts now, from logits that must be `finite`."""
    return finite(method.predict(images)).argmax(1)


# ---- labelled source images -----------------------------------------------------------------------


def at_most(images: int, source: LabelledImages) -> int:
    """The number of images to use, those that the source has if it has fewer; warns then.

    Raises HoldfastError if the source is none.
    """
    if not hasattr(source, "load"):
        raise HoldfastError(
            f"source={type(source).__name__}: pass labelled images, such as ImageFolder(PATH)."
        )
    in_range(1, images=images, source=len(source))
    if len(source) < images:
        rank_zero_warn(f"images={images}: the source has {len(source)}, and all of them are used.")
    return min(images, len(source))


def drawn_indices(source: LabelledImages, count: int) -> Tensor:
    """Random but fixed indices [count] of a source's images: folders are sorted by class."""
    return torch.tensor(random.Random(0).sample(range(len(source)), count))


def source_images(
    source: LabelledImages, index: Tensor, device: torch.device, dtype: Any
) -> tuple[Tensor, Tensor]:
    """Images [B,3,H,W] in [0,1] of a source and their labels [B], without those of unknown label."""
    images, labels = source.load(index, index)
    images, labels = images[labels >= 0].to(device), labels[labels >= 0].to(device)
    return (images.float() / 255).to(dtype), labels


def source_outputs(
    method: Adapting, source: LabelledImages, count: int, asking: str
) -> tuple[Tensor, Tensor]:
    """Logits [n,C] and labels [n], on the CPU, of random but fixed images of a source.

    Raises HoldfastError if there are labels beyond the logits; the message names `asking`.
    """
    weight = next(method.predictor.parameters())
    source.adopt(getattr(method, "backbone", None))
    logits, labels = [], []
    for index in drawn_indices(source, count).split(64):
        images, target = source_images(source, index, weight.device, weight.dtype)
        logits.append(method.predict(images).cpu())
        labels.append(target.cpu())
        classes = logits[-1].shape[1]
        if (target >= classes).any():
            raise HoldfastError(
                f"{asking}: the validation data has labels such as {int(target.max())}, but the "
                f"backbone has {classes} classes. Pass images of its classes."
            )
    return torch.cat(logits), torch.cat(labels)
