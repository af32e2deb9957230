"""Runs a callback's test hooks in `Trainer.predict` as well."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class InPredictions(Callback):
    """Forwards each prediction hook to the test hook; the outputs are only the logits [B,C]."""

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.on_test_start(trainer, pl_module)

    def on_predict_batch_start(self, *arguments: Any) -> None:
        self.on_test_batch_start(*arguments)

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *rest: Any
    ) -> None:
        self.on_test_batch_end(trainer, pl_module, {"logits": outputs}, *rest)
