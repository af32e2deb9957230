"""The hooks that a Trainer calls: a test of a method is one online run over a stream."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, final

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from torchmetrics import MeanMetric, Metric, MetricCollection

from ... import HoldfastError
from ...batch import Batch, as_batch
from ...callbacks.functional.scores import scored
from ...callbacks.protocols import callbacks_of, stream_of
from ..distributed.strategies import SyncStrategy
from ..distributed.sync import averaged
from .hparams import WithArguments
from .step_lock import OneThread

Metrics = (
    Metric
    | MetricCollection
    | Sequence[Metric | MetricCollection]
    | dict[str, Metric | MetricCollection]
)


class WeightedMean(MeanMetric):
    """The weighted mean of values, without torchmetrics' check for NaN, which makes the host
    wait."""

    def update(self, value: Tensor, weight: Tensor) -> None:  # type: ignore[override]
        weight = weight.to(self.dtype)
        self.mean_value += torch.where(weight > 0, value * weight, 0).sum()
        self.weight += weight.sum()


class OnlineTest(WithArguments, ABC):
    """Adapts to each batch of a test, scores it, and logs the accuracies at the end.

    `accuracy` is the mean of the batches' accuracies, as in the papers; `accuracy_per_image` that of the
    images. Neither counts images without a known label. The data are a stream, or whatever gives
    (images, labels) or mappings of them: see `as_batch`. `Trainer.predict` adapts as a test does, and
    returns the logits of each batch.

    Args:
        metrics: torchmetrics' metrics, updated by the logits [B,C] and labels [B] of images whose label is
            known, and logged at the end. Those given are left untouched.
    """

    seed: int
    step_count: int
    divides = False  # whether several ranks share the work on each batch

    def __init__(self, metrics: Metrics | None = None) -> None:
        super().__init__()
        self.automatic_optimization = False
        self._seen = 0  # images of this run, for data without positions
        self._hooks: list[RemovableHandle] = []
        self._turn = OneThread()
        # Each rank counts all images, so there is nothing to add up.
        self.batch_accuracy = WeightedMean(sync_on_compute=False)
        self.image_accuracy = WeightedMean(sync_on_compute=False)
        self.batch_accuracy.persistent(True)
        self.image_accuracy.persistent(True)
        self.metrics = MetricCollection({} if metrics is None else metrics).clone()
        self.metrics.persistent(True)
        for metric in self.metrics.values():
            metric.sync_on_compute = metric._to_sync = False  # type: ignore[union-attr]

    @abstractmethod
    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored."""

    @abstractmethod
    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter that the optimizer changes, with its value in the source model."""

    def check(self, trainer: Trainer) -> None:
        """Raise HoldfastError if the Trainer's precision or strategy does not suit an online run."""
        if trainer.precision not in ("32-true", "64-true", "bf16-mixed"):
            raise HoldfastError(
                f"Precision {trainer.precision} rounds the updates to zero. Use 32-true or "
                "bf16-mixed."
            )
        if trainer.world_size > 1 and not isinstance(trainer.strategy, SyncStrategy):
            raise HoldfastError(
                "Several devices can be used in two ways. Pass --trainer.strategy sync (one "
                "stream, with each batch divided) or streams (a stream per device), or "
                "--trainer.devices 1."
            )

    def setup(self, stage: str) -> None:
        self.check(self.trainer)
        check_stage(stage, callbacks_of(self.trainer))
        self._seen = 0
        self.divides = self.trainer.world_size > 1
        if self.divides:
            self.seed = self.trainer.strategy.broadcast(self.seed)
            self._hooks = [p.register_hook(averaged) for p, _ in self.parameters_with_source()]

    def teardown(self, stage: str) -> None:
        for hook in self._hooks:
            hook.remove()
        self.divides = False

    def _apply_batch_transfer_handler(
        self, batch: Any, device: torch.device | None = None, dataloader_idx: int = 0
    ) -> Batch:
        # Not one of Lightning's hooks, as a data module's hooks would take its place.
        batch = super()._apply_batch_transfer_handler(batch, device, dataloader_idx)
        batch = as_batch(batch, self._seen, dataloader_idx)
        self._seen += len(batch.labels)
        if batch.images.is_floating_point():
            kind = next((p.dtype for p in self.parameters()), batch.images.dtype)
            batch = batch._replace(images=batch.images.to(kind))
        return batch

    def look_ahead(self) -> Iterator[Any]:
        """All batches of the run, as its loaders give them."""
        trainer, data = self.trainer, self.trainer.datamodule  # type: ignore[attr-defined]
        loaders = trainer.test_dataloaders if trainer.testing else trainer.predict_dataloaders
        if data is not None:  # another loader than the run's
            loaders = data.test_dataloader() if trainer.testing else data.predict_dataloader()
        return (batch for batch, *_ in CombinedLoader(loaders, "sequential"))

    @final
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Never called: `setup` says what to do instead."""

    @final
    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Adapt to the batch; returns the logits [B,C] of `adapt`."""
        return self.adapt(batch.images)

    @final
    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        """Adapt to the batch and score the logits of `adapt`: see `scored`."""
        outputs = scored(self.adapt(batch.images), batch.labels)
        labels = outputs["labels"]
        if self.step_count == 1:
            source = getattr(stream_of(self.trainer), "source", None)
            check_labels(labels, outputs["logits"].shape[1], getattr(source, "classes", None))
        known = labels >= 0
        self.batch_accuracy.update(outputs["accuracy"], known.any())
        self.image_accuracy.update(outputs["correct"], known)
        if self.metrics and (known := known & outputs["logits"].isfinite().all(1)).any():
            self.metrics.update(outputs["logits"].detach()[known], labels[known])
        return outputs

    def on_test_epoch_end(self) -> None:
        if self.image_accuracy.weight:  # else no label was known
            self.log("accuracy", self.batch_accuracy)
            self.log("accuracy_per_image", self.image_accuracy)
            self.log_dict(self.metrics)


def check_labels(labels: Tensor, classes: int, of_source: int | None) -> None:
    """Compare the labels [B] of the first batch, and the classes of its source, with those of the logits.

    Raises:
        HoldfastError: if a label has no logit. The number after the last logit is accepted as "none of
            these classes", unless the source has a class of that number.
    """
    none_of_them = int((of_source or 0) <= classes)
    if labels.max() >= classes + none_of_them:
        raise HoldfastError(
            f"The labels go up to {int(labels.max())}, but the backbone has only {classes} logits, "
            "so such labels are never predicted. Use a backbone with a logit for each class, or "
            "other labels."
        )
    if of_source and of_source != classes:
        rank_zero_warn(
            f"The images have {of_source} classes and the backbone has {classes} logits. "
            "Accuracies are right only if both number the classes in the same way."
        )


def check_stage(stage: str, callbacks: Sequence[Callback]) -> None:
    """Raise HoldfastError in `validate`, which does not adapt, and for test-only callbacks in `predict`."""
    if stage == "validate":
        raise HoldfastError(
            "A method adapts in Trainer.test, which also computes its accuracy, and in "
            "Trainer.predict. Call one of these instead of Trainer.validate."
        )
    own = __name__.partition(".")[0]
    idle = [
        c for c in callbacks if any(k.__module__.startswith(f"{own}.") for k in type(c).__mro__)
    ]
    idle = [c for c in idle if overrides(c, "on_test_") and not overrides(c, "on_predict_")]
    if stage == "predict" and idle:
        names = ", ".join(type(callback).__name__ for callback in idle)
        raise HoldfastError(
            f"{names} can be used only in Trainer.test, where images without a label have -1. "
            "Remove what a prediction cannot use, or call Trainer.test."
        )


def overrides(callback: Callback, beginning: str) -> bool:
    """Whether a callback overrides a hook whose name begins with this prefix."""
    hooks = (name for name in vars(Callback) if name.startswith(beginning))
    return any(getattr(type(callback), name) is not getattr(Callback, name) for name in hooks)
