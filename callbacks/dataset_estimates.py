"""DatasetEstimates: estimates for a whole stream, from confidence and optimal transport."""

from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

from .. import HoldfastError, in_range
from ..batch import LabelledImages
from ..run_folder import OUTPUTS
from ..tensors import finite_images
from .estimator import at_most, source_outputs
from .functional import confidence as cf
from .functional import transport as ot
from .observer import Observer, undisturbed
from .protocols import method_of, stream_of
from .record import save_arrays

Array = np.ndarray


def _estimates(
    logits: Array, val_logits: Array, labels: Array, temperature: float = 1.0
) -> dict[str, float]:
    """Accuracy in [0,1] by each estimator, from softmax(z / T) of logits [n,C] on a stream and [m,C] on
    labelled data [m] from the source."""
    probs, val_probs = (cf.probabilities(z, temperature) for z in (logits, val_logits))
    correct = val_probs.argmax(1) == labels
    scores, val_scores = (
        {"confidence": cf.max_confidence(p), "entropy": cf.negative_entropy(p)}
        for p in (probs, val_probs)
    )
    marginal = np.bincount(labels, minlength=logits.shape[1])
    random = np.random.default_rng(10)
    val_part = ot.parts(len(val_probs), random)[0]
    val_costs = ot.transport_costs(val_probs[val_part], labels[val_part])
    costs = [
        ot.transport_costs(probs[part], ot.draw_labels(marginal, len(part), random))
        for part in ot.parts(len(probs), random)
    ]
    return {
        **cf.score_estimates(scores, val_scores, correct),
        "COT": float(np.mean([ot.cot(cost) for cost in costs])),
        "COTT": float(np.mean([ot.cott(cost, val_costs, correct[val_part]) for cost in costs])),
    }


class DatasetEstimates(Observer):
    """Collects a run's scored logits, and logs the estimates of AC, DoC, ATC, COT and COTT.

    The papers do this with a model that does not adapt, so methods that adapt are skipped by default. Each
    estimate is logged under its name, and with _T for the temperature that minimises the cross-entropy on
    the validation data; the accuracy on the same images as `collected_accuracy`. The predicted classes go
    to outputs.npz in the run's folder, for estimates from several models.

    Args:
        validation: labelled images from the source, none of which the model was trained on.
        images: number of images from the start of the stream; None: those of its first segment, which for a
            data set is each of its images once.
        validation_images: their number; a fixed random sample.
        adapting: whether to include methods that adapt.
    """

    STATE = ("batches", "seen", "val")

    def __init__(
        self,
        validation: LabelledImages,
        images: int | None = 10_000,
        validation_images: int = 10_000,
        adapting: bool = False,
    ) -> None:
        in_range(1, images=images, validation_images=validation_images, validation=len(validation))
        self.adapting = adapting
        self.validation, self.images = validation, images
        self.validation_images = at_most(validation_images, validation)
        self.batches: list[tuple[Tensor, Tensor]] = []
        self.seen = 0  # images, of which those that are not finite are not in `batches`
        self.val: tuple[Tensor, Tensor] | None = None

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stream, self.limit = stream_of(trainer), self.images or 0
        if self.images is None:
            if stream is None:
                raise HoldfastError(
                    "The data are not a stream, so they have no segments. Pass DatasetEstimates(images=N)."
                )
            self.limit = stream.segment(0).count
        if not self.adapting and any(p.requires_grad for p in pl_module.parameters()):
            self.limit = 0
        if self.limit and self.val is None:
            with trainer.precision_plugin.test_step_context(), undisturbed(pl_module.device):
                self.val = source_outputs(
                    method_of(pl_module),
                    self.validation,
                    self.validation_images,
                    "DatasetEstimates",
                )

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        room = self.limit - self.seen
        if room > 0:
            good = finite_images(batch.images[:room])
            logits, labels = outputs["logits"][:room][good], outputs["labels"][:room][good]
            self.batches.append((logits.cpu(), labels.cpu()))
            self.seen += len(good)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.limit:
            return
        assert self.val is not None
        logits, labels = (torch.cat(part).numpy() for part in zip(*self.batches, strict=True))
        val_logits, val_labels = (part.numpy() for part in self.val)
        if not len(logits) or not np.isfinite(logits).all() or not np.isfinite(val_logits).all():
            rank_zero_warn("DatasetEstimates has no estimate, because not all logits are finite.")
            return
        temperature = cf.fit_temperature(val_logits, val_labels)
        values = _estimates(logits, val_logits, val_labels)
        scaled = _estimates(logits, val_logits, val_labels, temperature)
        values |= {f"{name}_T": estimate for name, estimate in scaled.items()}
        values["temperature"] = temperature
        if (known := labels >= 0).any():
            values["collected_accuracy"] = float((logits.argmax(1) == labels)[known].mean())
        values["collected_images"] = float(len(labels))
        for name, value in values.items():
            pl_module.log(name, value)
        save_arrays(
            trainer,
            OUTPUTS,
            classes=logits.argmax(1).astype(np.int32),
            labels=labels.astype(np.int32),
            val_classes=val_logits.argmax(1).astype(np.int32),
            val_labels=val_labels.astype(np.int32),
        )
