"""A budget of time for adaptation, after which a method only predicts."""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import HoldfastError, in_range, step_times
from .observer import InPredictions, undisturbed
from .protocols import Adapting, method_of

_PASSES = 5  # of the source model, whose median time is the response time


class OverheadBudget(InPredictions):
    """Freezes a method when its steps have taken too long (TEMPORA's amortised utility, 2602.06136).

    Each step adds what it takes beyond `response`. Once the sum reaches `budget`, the method predicts as
    it is for the rest of the run, without recoveries. The record has the sum before each step as `spent`,
    and `frozen`. With `times` a run repeats bit for bit; without them it is another one each time, and on
    an accelerator the host waits for each step until the method is frozen.

    Args:
        budget: the time that adaptation may add, in the unit of `times`; seconds if these are measured.
        response: the time that is not counted, in the same unit, such as the source model's; None: the
            median time of five passes of the source model on the first batch.
        times: time of a step, or those of the steps, again from the first one after the last; None:
            measured.

    Raises HoldfastError if there are times and no `response`, or `times` is an empty list.
    """

    STATE = ("spent", "allowance")

    def __init__(
        self,
        budget: float,
        response: float | None = None,
        times: float | Sequence[float] | None = None,
    ) -> None:
        steps = step_times(times)
        in_range(0, budget=budget, response=response)
        if steps and response is None:
            raise HoldfastError(
                "OverheadBudget needs the response time to which its times refer. Pass response=."
            )
        self.budget, self.response, self.times, self.steps = budget, response, times, steps
        # The time of a step that is not counted; None until it is measured.
        self.allowance = response
        self.spent = 0.0

    @property
    def frozen(self) -> bool:
        """Whether the budget is spent."""
        return self.spent >= self.budget

    def spend(self, seconds: float) -> None:
        """Count a step of the method that took so long."""
        assert self.allowance is not None
        if not self.frozen:
            self.spent += max(0.0, seconds - self.allowance)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        method_of(pl_module).frozen = self.frozen

    on_predict_start = on_test_start

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        self.details = {"spent": self.spent, "frozen": float(self.frozen)}
        if self.allowance is None:
            with trainer.precision_plugin.test_step_context(), undisturbed(batch.images.device):
                self.allowance = _source_time(method_of(pl_module), batch.images)

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        method = method_of(pl_module)
        if not self.frozen:
            step = method.step_count - 1
            times = self.steps
            self.spend(times[step % len(times)] if times else float(method.times["update_ended"]))
        method.frozen = self.frozen

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        method_of(pl_module).frozen = False


def _source_time(method: Adapting, images: Tensor) -> float:
    """The median time of a pass of the source model, as the method has prepared it, in seconds."""

    def now() -> float:
        if images.device.type == "cuda":
            torch.cuda.synchronize(images.device)
        return time.perf_counter()

    passes = []
    for _ in range(_PASSES):
        start = now()
        method.source_logits(images)
        passes.append(now() - start)
    return median(passes)
