"""A progress bar that counts images."""

import math
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from tqdm import tqdm

from .declared_state import DeclaredState
from .later import Later
from .protocols import stream_of


class StreamProgress(DeclaredState, Callback):
    """Shows images per second, time left, and the running and recent accuracy.

    Args:
        label: in front of the bar; default: the method's name.
        recent: weight of the newest batch in the recent accuracy.
    """

    STATE = ("_images", "_batches", "_mean", "_recent")

    def __init__(self, label: str | None = None, recent: float = 0.02) -> None:
        self.label, self.recent = label, recent
        self._images = self._batches = 0
        self._mean = self._recent = 0.0
        self._later = Later(seconds=0.5)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stream = stream_of(trainer)
        total = None if stream is None else stream.images
        label = self.label or type(pl_module).__name__
        options = {"unit": "img", "unit_scale": True, "mininterval": 0.5}
        options["disable"] = not trainer.is_global_zero
        self._bar = tqdm(total=total, desc=label, initial=self._images, **options)

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        if self._later.add({"accuracy": outputs["accuracy"]}, None):
            self._take_note()
            text = f"accuracy {self._mean:.1%}, recent {self._recent:.1%}"
            self._bar.set_postfix_str(text if self._batches else "", refresh=False)
        self._bar.update(len(outputs["correct"]))
        self._images += len(outputs["correct"])

    def _take_note(self) -> None:
        """Add the queued accuracies to the means."""
        for values, _ in self._later.read():
            truth = values["accuracy"]
            if not math.isnan(truth):
                self._batches += 1
                self._mean += (truth - self._mean) / self._batches
                self._recent += (truth - self._recent) * max(self.recent, 1 / self._batches)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if hasattr(self, "_bar"):
            self._bar.close()

    def state_dict(self) -> dict[str, Any]:
        self._take_note()
        return super().state_dict()
