"""What a Trainer calls: its test of a method is one online run over a stream."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, final

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from torchmetrics import MeanMetric

from .. import HoldfastError
from ..callbacks.functional.scores import scored
from ..callbacks.protocol import stream_of
from .distributed.strategies import SyncStrategy
from .distributed.sync import averaged
from .one_thread import OneThread


class OnlineTest(LightningModule, ABC):
    """Adapts to each batch of a test in turn, scores it, and logs the accuracies at the end.

    `accuracy` is the mean of the batches' accuracies, as in the papers; `accuracy_per_image` that of the
    images. Both leave out images whose label is not known.
    """

    seed: int
    step_count: int
    divides = False  # whether several ranks share the work on each batch

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self._hooks: list[RemovableHandle] = []
        self._turn = OneThread()
        # Each rank counts all images, so there is nothing to add up.
        self.batch_accuracy = MeanMetric("ignore", sync_on_compute=False)  # NaN without labels
        self.image_accuracy = MeanMetric(sync_on_compute=False)
        self.batch_accuracy.persistent(True)
        self.image_accuracy.persistent(True)

    @abstractmethod
    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored."""

    @abstractmethod
    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter that the optimizer changes, with its value in the source model."""

    def check(self, trainer: Trainer) -> None:
        """Refuse a Trainer in which no run could be right."""
        if trainer.precision not in ("32-true", "64-true", "bf16-mixed"):
            raise HoldfastError(
                f"precision {trainer.precision} rounds the updates away: use 32-true or bf16-mixed."
            )
        if trainer.world_size > 1 and not isinstance(trainer.strategy, SyncStrategy):
            raise HoldfastError(
                "several devices have two meanings: choose --trainer.strategy sync (one stream, each "
                "batch divided) or streams (another stream on each device), or --trainer.devices 1."
            )

    def setup(self, stage: str) -> None:
        self.check(self.trainer)
        self.divides = self.trainer.world_size > 1
        if self.divides:
            self.seed = self.trainer.strategy.broadcast(self.seed)
            self._hooks = [p.register_hook(averaged) for p, _ in self.parameters_with_source()]

    def teardown(self, stage: str) -> None:
        for hook in self._hooks:
            hook.remove()
        self.divides = False

    @final
    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        """Adapt to the batch and score the logits of `adapt`: see `scored`."""
        outputs = scored(self.adapt(batch.images), batch.labels)
        classes, labels = outputs["logits"].shape[1], outputs["labels"]
        if self.step_count == 1 and labels.max() >= classes + self._strangers(classes):
            rank_zero_warn(
                f"labels such as {int(labels.max())} are never right, as the backbone has {classes} "
                "classes: choose another backbone, or other labels."
            )
        self.batch_accuracy.update(outputs["accuracy"])
        self.image_accuracy.update(outputs["correct"].float(), labels >= 0)
        return outputs

    def _strangers(self, classes: int) -> int:
        """1 if a label one above the backbone's means "none of them", and no class of the source."""
        source = getattr(stream_of(self.trainer), "source", None)
        return int(getattr(source, "classes", 0) <= classes)

    def on_test_epoch_end(self) -> None:
        if self.image_accuracy.weight:  # else no label was known
            self.log("accuracy", self.batch_accuracy)
            self.log("accuracy_per_image", self.image_accuracy)
