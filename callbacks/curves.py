"""Curves of a run in the Trainer's loggers: means over some batches against the images seen."""

import math
import time
from statistics import fmean
from typing import Any

from lightning.fabric.loggers import Logger
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from ..tensors import on_host
from .estimator import AccuracyEstimator
from .observer import Observer
from .protocols import callbacks_of, method_of, stream_of


class Curves(Callback):
    """Logs what a step gives to each of the Trainer's loggers, as `stream/NAME` against the images seen.

    Names are accuracy and nll (if labels are known), whatever the method traces (loss, selected, ...),
    reset, estimates by name, their absolute errors, and the other columns of those that watch. Every
    method brings one to a Trainer with a logger and without a `RunRecord`, which is one itself.

    Args:
        every: batches for each point of a curve, their mean; 1 in a run that is too short for two points.
    """

    def __init__(self, every: int = 25) -> None:
        self.every = every
        self.images = self.resets = 0
        self.window: list[dict[str, float]] = []  # values since the last point of the curves
        self._later = Later()
        self._loggers: list[Logger] = []

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self._loggers = [*trainer.loggers]
            self.resets = method_of(pl_module).reset_count
            self.divide(trainer)

    def divide(self, trainer: Trainer) -> None:
        """Draw each batch of a short run."""
        if batches_ahead(trainer) < 2 * self.every:
            self.every = 1

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        if self._loggers:
            self.log_step(trainer, pl_module, outputs, batch, {})

    def log_step(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: Any,
        batch: Any,
        row: dict[str, Any],
    ) -> None:
        """Queue a step's values, which complete its `row`, until they are read."""
        method = method_of(module)
        self.images += len(batch.labels)
        watching = [c for c in callbacks_of(trainer) if isinstance(c, Observer)]
        estimators = [c for c in watching if isinstance(c, AccuracyEstimator) and c.of_batches]
        values = {
            "segment": batch.segment[0],
            "accuracy": outputs["accuracy"],
            "nll": outputs["nll"],
            **method.trace,
        }
        for observer in watching:
            values |= observer.columns()
        values["reset"] = float(method.reset_count - self.resets)
        self.resets = method.reset_count
        row = {"step": method.step_count - 1, "images": self.images, **row}
        estimates = {c.name: c.latest for c in estimators if c.latest is not None}
        if self._later.add(values, (row, estimates, stream_of(trainer))):
            self.read()

    def read(self) -> None:
        """Write and draw the steps whose numbers were still on the accelerator."""
        for values, (row, estimates, stream) in self._later.read():
            number, truth = int(values.pop("segment")), values["accuracy"]
            if math.isnan(truth):
                del values["accuracy"], values["nll"]
            else:
                values |= {f"{name}_error": abs(value - truth) for name, value in estimates.items()}
            corruptions = None if stream is None else list(stream.segment(number).corruptions)
            self.write_row(row | {"segment": number, "corruptions": corruptions, **values})
            self.window.append({k: value for k, value in values.items() if math.isfinite(value)})
            if len(self.window) >= self.every:
                self.draw(row["images"])

    def write_row(self, row: dict[str, Any]) -> None:
        """Write the row of a step; default: nothing."""

    def draw(self, images: int) -> None:
        """One point of each curve: the mean of its values since the last point."""
        names = {name: None for values in self.window for name in values}
        means = {
            f"stream/{name}": fmean(values[name] for values in self.window if name in values)
            for name in names
        }
        for logger in self._loggers:
            logger.log_metrics(means, step=images)
        self.window = []

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.read()
        if self.window:
            self.draw(self.images)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.read()
        names = ("images", "resets", "every", "window")
        checkpoint["callbacks"][self.state_key] = {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)


class Later:
    """Scalars by name, with associated data, that are waiting to be read.

    >>> import torch
    >>> later = Later()
    >>> later.add({"loss": torch.tensor(0.5)}, "step 0")  # to be read now: a CPU has no need to wait
    True
    >>> later.read()
    [({'loss': 0.5}, 'step 0')]

    Args:
        steps: maximum number of steps that are queued, on an accelerator.
        seconds: maximum time for which they are queued.
    """

    def __init__(self, steps: int = 50, seconds: float = 1.0) -> None:
        self.steps, self.seconds, self.since = steps, seconds, time.monotonic()
        self.waiting: list[tuple[dict[str, Any], Any]] = []

    def add(self, values: dict[str, Any], data: Any) -> bool:
        """Queue a step's values with other data of it; returns whether it is time to read."""
        self.waiting.append((values, data))
        full = len(self.waiting) >= self.steps
        far = [v for v in values.values() if isinstance(v, Tensor) and v.device.type != "cpu"]
        return full or not far or time.monotonic() - self.since >= self.seconds

    def read(self) -> list[tuple[dict[str, float], Any]]:
        """All queued values as numbers; empties the queue."""
        waiting, self.waiting, self.since = self.waiting, [], time.monotonic()
        remote = [
            (number, name)
            for number, (values, _) in enumerate(waiting)
            for name, value in values.items()
            if isinstance(value, Tensor) and value.device.type != "cpu"
        ]
        if remote:
            far = [waiting[number][0][name].reshape(()) for number, name in remote]
            for (number, name), value in zip(remote, on_host(*far), strict=True):
                waiting[number][0][name] = value
        return [({k: float(v) for k, v in values.items()}, data) for values, data in waiting]


def batches_ahead(trainer: Trainer) -> float:
    """The number of batches of the run; infinity if unknown."""
    known, stream = sum(trainer.num_test_batches), stream_of(trainer)
    if stream is None or stream.images is None:
        return known
    return min(known, math.ceil((stream.images - stream.start) / stream.batch_size))


def curves_for(trainer: Trainer) -> list[Curves]:
    """What draws the curves of a Trainer that has a logger and nothing that draws them."""
    drawn = any(isinstance(c, Curves) and type(c) is not Curves for c in callbacks_of(trainer))
    return [Curves()] if trainer.loggers and not drawn else []
