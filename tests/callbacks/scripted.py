"""Methods and estimators with scripted losses and estimates, and a stream, to test resets and
alarms."""

from typing import Any

import torch
from common import TensorStream
from lightning.pytorch import Callback

from holdfast.callbacks import Reset
from holdfast.datamodules import Batch


class Script:
    """Acts as a method whose steps have given losses, and as an estimator with given estimates."""

    latest: float | None = None
    last_step: Any = None

    def __init__(self) -> None:
        self.trace: dict[str, float] = {}
        self.steps_since_reset = self.step_count = 0

    def step(self, reset: Reset) -> bool:
        """One step, then whether it is followed by a reset, which is carried out."""
        self.step_count += 1
        self.steps_since_reset += 1
        reset.after_step(self)
        due = reset.should_reset(self)
        assert reset.should_reset(self) == due, "asking twice changes the answer"
        if due:
            self.steps_since_reset = 0
        return due


STEPS = 12


class Watch(Callback):
    """The reset count of every step, seen when the step begins, after the resets."""

    def __init__(self) -> None:
        self.resets: list[int] = []

    def on_test_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.resets.append(pl_module.reset_count)


class Scripted(Callback):
    """An estimator with prepared estimates."""

    def __init__(self, *estimates: float) -> None:
        self.estimates, self.latest = list(estimates), None

    def on_test_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.latest = self.estimates[pl_module.step_count]


def stream(segments: list[int] | None = None) -> TensorStream:
    data = TensorStream(torch.rand(STEPS, 6, 3, 8, 8))
    if segments:
        data.batches = [
            Batch(b.images, b.labels, b.index, torch.full_like(b.index, segment))
            for b, segment in zip(data.batches, segments, strict=True)
        ]
    return data
