"""Resets: when an adapting model returns to its source."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import HoldfastError, in_range
from ..alarms import Drop
from .alarm import Alarm, Alarming, only
from .observer import name_of
from .protocols import Adapting, Estimating
from .recovery import Recovery, is_finite


class Reset(Recovery):
    """Resets the method before a step whenever `should_reset` says so; subclasses override that.

    All go back to the source's weights and statistics with a fresh optimizer. `keep_memory=True` preserves
    the method's other state (RoTTA's and SoTTA's images, the average of EATA), as AETTA's official code
    does; the default resets that, too, as RDumb's does.
    """

    keep_memory = False

    @abstractmethod
    def should_reset(self, method: Adapting) -> bool:
        """Whether to return to the source before the next step; changes nothing.

        Not called before the first step after a reset.
        """

    def observe(self, method: Adapting) -> None:
        """Observe the last step; called exactly once after each."""

    def learn(self, method: Adapting, images: Tensor, logits: Tensor) -> None:
        """Observe a step's images [B,3,H,W] and logits [B,C], after `observe`.

        Called only after finite steps with predictions.
        """

    def reset(self, method: Adapting) -> None:
        """Return to the source."""
        method.reset(self.keep_memory)

    def before_step(self, method: Adapting) -> None:
        if method.steps_since_reset > 0 and self.should_reset(method):
            self.reset(method)

    def after_step(self, method: Adapting) -> None:
        self.observe(method)
        if is_finite(method) and method.last_step is not None:
            self.learn(method, *method.last_step)


class PeriodicReset(Reset):
    """Resets every `every` steps, as RDumb does (Press et al. 2023, section 3; thesis §2.3).

    >>> PeriodicReset(every=1)  # episodic: each batch starts from the source model
    PeriodicReset(every=1, keep_memory=False)
    """

    def __init__(self, every: int = 1000, keep_memory: bool = False) -> None:
        in_range(1, every=every)
        self.every, self.keep_memory = every, keep_memory

    def should_reset(self, method: Adapting) -> bool:
        return method.step_count % self.every == 0


class SegmentReset(Reset):
    """Resets when the corruption changes: the oracle that AETTA (Lee et al. 2024) calls DistShift.

    Only in a Trainer, where the batches say which segment of the stream they belong to. A batch that
    spans two segments counts as one of the new segment.
    """

    STATE = ("current",)

    def __init__(self, keep_memory: bool = False) -> None:
        self.keep_memory = keep_memory
        self.current: int | None = None
        self.previous: int | None = None

    def listen(self, watching: Sequence[object], in_trainer: bool = False) -> None:
        if not in_trainer:
            raise HoldfastError(
                "SegmentReset needs to know when the corruption changes. Use a Trainer, whose batches have "
                "segments, or call method.reset() at each change."
            )

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        self.previous, self.current = self.current, int(batch.segment[-1])
        super().on_test_batch_start(trainer, pl_module, batch)

    def should_reset(self, method: Adapting) -> bool:
        return self.previous is not None and self.current != self.previous


class MRS(Reset):
    """Resets when the loss has become suspiciously small: SAR's model recovery (Niu et al. 2023).

    The moving average e <- 0.9 e + 0.1 loss, which starts at the first loss and skips steps without one,
    must not fall below `floor`.

    Args:
        floor: the smallest healthy average, in nats.
        keep_average: do not restart the average after a reset, as in the official code, which therefore
            resets repeatedly until the average is above the floor.
        keep_memory: see `Reset`.
    """

    STATE = ("average",)

    def __init__(
        self, floor: float = 0.2, keep_average: bool = False, keep_memory: bool = False
    ) -> None:
        self.floor, self.keep_average, self.keep_memory = floor, keep_average, keep_memory
        self.average: float | None = None

    def observe(self, method: Adapting) -> None:
        if method.steps_since_reset == 1 and not self.keep_average:
            self.average = None
        loss = float(method.trace.get("loss", math.nan))
        if not math.isnan(loss):
            before = self.average
            self.average = loss if before is None else 0.9 * before + (1 - 0.9) * loss

    def should_reset(self, method: Adapting) -> bool:
        return self.average is not None and self.average < self.floor


class AlarmReset(Reset):
    """Resets when an alarm is raised, and clears the alarm.

    Args:
        alarm: an `Alarm` or a `RiskMonitor`, or its name among the callbacks of the Trainer.
        keep_memory: see `Reset`.
    """

    def __init__(self, alarm: str | Alarming = "Alarm", keep_memory: bool = False) -> None:
        self.heard = None if isinstance(alarm, str) else alarm
        self.alarm = alarm if isinstance(alarm, str) else name_of(alarm)
        self.keep_memory = keep_memory

    def listen(self, watching: Sequence[object], in_trainer: bool = False) -> None:
        if self.heard is None:
            self.heard = only(self.alarm, watching, type(self).__name__, "restart")

    def should_reset(self, method: Adapting) -> bool:
        if self.heard is None:
            raise HoldfastError(
                f"Outside a Trainer, pass {type(self).__name__} the {self.alarm}, not its name."
            )
        return self.heard.alarm

    def reset(self, method: Adapting) -> None:
        super().reset(method)
        assert self.heard is not None
        self.heard.restart()


class AccuracyReset(AlarmReset):
    """Resets when the estimated accuracy falls: AETTA's rule, `holdfast.alarms.Drop` (Lee et al. 2024).

    Args:
        estimator: a callback with an attribute `latest`, or its class's name. In a
            Trainer it must be one of the callbacks; elsewhere, give the callback itself.
        window: length of the two windows compared.
        margin: 0.02 as in the official code; the paper does not mention it (0).
        floor: the smallest estimate that counts as healthy.
        each: compare all of the last estimates with all of those before instead of the means.
        keep_memory: see `Reset`.
    """

    def __init__(
        self,
        estimator: str | Estimating = "AETTA",
        window: int = 5,
        margin: float = 0.02,
        floor: float = 0.2,
        each: bool = False,
        keep_memory: bool = False,
    ) -> None:
        self.raised = Alarm(estimator, Drop(window, margin, floor, each))
        self.raised.name = type(self).__name__
        super().__init__(self.raised, keep_memory)
        self.estimator = self.raised.estimator
        self.window, self.margin, self.floor, self.each = window, margin, floor, each

    def listen(self, watching: Sequence[object], in_trainer: bool = False) -> None:
        self.raised.listen(watching)

    def observe(self, method: Adapting) -> None:
        self.raised.before_step(method)
        self.raised.judge()

    def state_dict(self) -> dict[str, Any]:
        return self.raised.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.raised.load_state_dict(state_dict)
