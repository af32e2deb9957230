"""A test of a method in a Trainer: hooks, scores and metrics."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, final

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from torchmetrics import MeanMetric, Metric, MetricCollection

from .. import HoldfastError
from ..batch import Batch, as_batch
from ..callbacks.curves import Curves, curves_for
from ..callbacks.functional.scores import scored
from ..callbacks.protocols import stream_of
from .checks import check_batch, check_labels, check_trainer
from .distributed import averaged
from .source_data import finite_batches, first_batches, left_out
from .state import Resettable

Measure = Metric | MetricCollection
Metrics = Measure | Sequence[Measure] | dict[str, Measure]


class OnlineTest(Resettable):
    """A module that adapts to each batch of a Trainer's test or prediction, and scores its logits."""

    # Of `TTAMethod`.
    adapt: Callable[[Tensor], Tensor]
    learn_source: Callable[[Iterator[tuple[Tensor, Tensor]]], dict[str, Any]]
    source_images: int
    source_data: LightningDataModule | None

    def __init__(self, metrics: Metrics | None = None) -> None:
        super().__init__()
        self.automatic_optimization = False
        # Images of this run, for data without positions.
        self._seen = 0
        # Whether a Trainer has ended a test of this method.
        self._tested = False
        # When the last batch was there, by time.perf_counter.
        self.arrived = 0.0
        self._hooks: list[RemovableHandle] = []
        self.batch_accuracy, self.image_accuracy = _WeightedMean(), _WeightedMean()
        self.nll, self.calibration, self.numbering = (
            _WeightedMean(),
            _CalibrationError(),
            _Numbering(),
        )
        self.metrics = MetricCollection(metrics or {}).clone()  # type: ignore[arg-type]
        scores = self.batch_accuracy, self.image_accuracy, self.nll, self.calibration
        for metric in (*scores, self.numbering, *self.metrics.values()):
            metric.persistent(True)
            # Each rank counts all images.
            metric.sync_on_compute = metric._to_sync = False

    # ---- before the stream ----------------------------------------------------------------------

    @property
    def unfitted(self) -> bool:
        """Whether `fit` must still be called."""
        return bool(self.source_images) and not self.learnt

    @final
    def fit(self, batches: Iterable[Any]) -> None:
        """Learn from source images before the stream begins, if the method has anything to learn.

        A Trainer calls it with images of `source_data`, or else with the first ones of the stream.

        Args:
            batches: images [B,3,H,W], or with their labels, as a DataLoader gives them. Images that
                are not finite are ignored.

        Raises HoldfastError if what is learnt contains NaN; nothing of it stays.
        """
        if not self.source_images:
            return
        with torch.inference_mode(False), torch.enable_grad():
            pairs = finite_batches(batches, next(self.backbone.parameters()))
            if (first := next(pairs, None)) is not None:
                learnt = self.learn_source(chain([first], pairs))
                numbers: list[Tensor] = [*self.restorable]
                apply_to_collection(learnt, Tensor, numbers.append)
                if any(tensor.isnan().any() for tensor in numbers):
                    self.to_source()
                    raise HoldfastError(
                        f"{type(self).__name__} learned NaN from the source images. Lower its learning "
                        "rate, or pass other source images."
                    )
                self.learnt = learnt

    # ---- hooks of a Trainer ---------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        # Lightning says so of every hook of this kind that a data module does not replace.
        warnings.filterwarnings("ignore", "You have overridden `on_after_batch_transfer`")
        check_trainer(self.trainer)
        self._seen = 0
        self.divides = self.trainer.world_size > 1
        if self.divides:
            self.seed = self.trainer.strategy.broadcast(self.seed)
            self._hooks = [p.register_hook(averaged) for p, _ in self.parameters_with_source()]

    def configure_callbacks(self) -> list[Curves]:  # type: ignore[override]
        """Curves for a Trainer with a logger; a `RunRecord` draws them itself."""
        return curves_for(self.trainer) if self.trainer.testing else []

    def teardown(self, stage: str) -> None:
        for hook in self._hooks:
            hook.remove()
        self.divides = False

    def on_test_start(self) -> None:
        if self._tested and self.step_count:
            rank_zero_warn(
                f"{type(self).__name__} continues from the end of its last test, after {self.step_count} "
                "steps. To start from the source model, call reset() first."
            )
        loader = self.trainer.test_dataloaders or self.trainer.predict_dataloaders
        if count := left_out(loader):
            rank_zero_warn(
                f"The DataLoader leaves out the last {count} images. Pass drop_last=False to test all."
            )
        if self.unfitted:  # else resumed, or fitted by hand
            self.fit(first_batches(self.trainer, self.source_data, self.source_images))

    on_predict_start = on_test_start

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Batch:
        """Make a `Batch` of what a loader gives; a data module that has this hook must do so itself."""
        self.arrived = time.perf_counter()
        batch = as_batch(batch, self._seen, dataloader_idx)
        self._seen += len(batch.labels)
        if batch.images.is_floating_point() and self.image_dtype is not None:
            batch = batch._replace(images=batch.images.to(self.image_dtype))
        return batch

    @final
    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Adapt to the batch; returns the logits [B,C] of `adapt`."""
        check_batch(batch)
        return self.adapt(batch.images)

    @final
    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        """Adapt to the batch and score the logits [B,C] of `adapt`: see `scored`."""
        check_batch(batch)
        self.batch_facts = {"highest_label": batch.labels.amax()}
        logits = self.adapt(batch.images)
        source = getattr(stream_of(self.trainer), "source", None)
        check_labels(
            int(self.batch_facts.pop("highest_label")),
            logits.shape[1],
            getattr(source, "classes", None),
            first=self.step_count == 1,
        )
        outputs = scored(logits, batch.labels)
        self.count(outputs)
        return outputs

    def count(self, outputs: dict[str, Tensor]) -> None:
        """Update the metrics with a batch's scores, such as "correct" [B]."""
        known, counted, labels = outputs["labels"] >= 0, outputs["counted"], outputs["labels"]
        classes = outputs["logits"].shape[1]
        with_logit = counted & (labels < classes)
        self.batch_accuracy.update(outputs["accuracy"], known.any())
        self.image_accuracy.update(outputs["correct"], known)
        self.nll.update(outputs["nll"], with_logit.sum())
        self.calibration.update(outputs["confidence"], outputs["correct"], counted)
        self.numbering.update(labels, classes)
        if self.metrics and with_logit.any():
            self.metrics.update(outputs["logits"][with_logit], labels[with_logit])

    def on_test_epoch_end(self) -> None:
        self._tested = True
        if not self.image_accuracy.weight:
            rank_zero_warn(
                "No image has a known label, so accuracy is unknown. Estimators need no labels: "
                "pass one, such as AETTA(), to the Trainer's callbacks."
            )
            return
        source = getattr(stream_of(self.trainer), "source", None)
        if self.numbering.compute() and getattr(source, "classes", None) is None:
            rank_zero_warn(
                "No image has label 0, and some have the number after the last class, which stands for no "
                "class. If the labels count from 1, subtract 1."
            )
        self.log("accuracy", self.batch_accuracy)
        self.log("accuracy_per_image", self.image_accuracy)
        self.log("nll", self.nll)
        self.log("ece", self.calibration)
        self.log_dict(self.metrics)


# ---- metrics ----------------------------------------------------------------------------------------


class _WeightedMean(MeanMetric):
    """The weighted mean of values, without torchmetrics' check for NaN, for which the host would wait."""

    def update(self, value: Tensor, weight: Tensor) -> None:  # type: ignore[override]
        weight = weight.to(self.dtype)
        self.mean_value += torch.where(weight > 0, value * weight, 0).sum()
        self.weight += weight.sum()


class _Numbering(Metric):
    """Whether labels seem to count from 1: many images, none of label 0, and some of label C."""

    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        # Images with a label, with label 0, with label C, and 10 C.
        self.add_state("counts", torch.zeros(4, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, labels: Tensor, classes: int) -> None:
        """Count the labels [B] of images, -1 where not known."""
        self.counts[:3] += torch.stack([labels >= 0, labels == 0, labels == classes]).sum(1)
        self.counts[3] = 10 * classes

    def compute(self) -> bool:
        images, zeros, beyond, many = self.counts.tolist()
        return images >= many and not zeros and beyond > 0


class _CalibrationError(Metric):
    """Expected calibration error in [0,1] (Guo et al. 2017) with torchmetrics' bins.

    It keeps sums over the images of each bin, while torchmetrics keeps the confidence of each image.
    """

    sums: Tensor

    def __init__(self, bins: int = 15) -> None:
        super().__init__()
        # Of images, confidence and correct predictions; the last bin is that of confidence 1.
        self.add_state("sums", torch.zeros(3, bins + 1), dist_reduce_fx="sum")

    def update(self, confidence: Tensor, correct: Tensor, counted: Tensor) -> None:
        """Add images [B], of which those that are not `counted` are left out."""
        bins = torch.arange(self.sums.shape[1], device=confidence.device)
        member = torch.bucketize(confidence, bins / bins[-1], right=True)[:, None] == bins + 1
        values = torch.stack([counted, torch.where(counted, confidence, 0), correct])
        self.sums += (values[:, :, None] * member).sum(1)

    def compute(self) -> Tensor:
        images, confidence, correct = self.sums
        return (confidence - correct).abs().sum() / images.sum()
