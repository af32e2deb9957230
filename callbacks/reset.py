"""When an adapting model goes back to its source."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from lightning.pytorch import LightningModule, Trainer

from .. import HoldfastError, in_range
from .protocol import Adapting, Estimating, callbacks_of, name_of
from .recovery import Recovery


class Reset(Recovery):
    """Resets the method before a step whenever `should_reset` says so; subclasses override that.

    All go back to the source's weights and statistics with a fresh optimizer. `keep_memory=True` leaves
    the method what it remembers besides (RoTTA's and SoTTA's images, the average of EATA), as AETTA's
    official code does; the default forgets that, too, as RDumb's does.
    """

    keep_memory = False

    @abstractmethod
    def should_reset(self, method: Adapting) -> bool:
        """Whether to return to the source before the step that is about to begin; changes nothing."""

    def observe(self, method: Adapting) -> None:
        """Take note of the step that was just made; called exactly once after each."""

    def before_step(self, method: Adapting) -> None:
        if self.should_reset(method):
            method.reset(self.keep_memory)

    def after_step(self, method: Adapting) -> None:
        self.observe(method)


class PeriodicReset(Reset):
    """Resets every `every` steps, as RDumb does (Press et al. 2023, section 3; thesis §2.3).

    >>> PeriodicReset(every=1)  # episodic: each batch starts from the source model
    PeriodicReset(every=1, keep_memory=False)
    """

    def __init__(self, every: int = 1000, keep_memory: bool = False) -> None:
        in_range(1, every=every)
        self.every, self.keep_memory = every, keep_memory

    def should_reset(self, method: Adapting) -> bool:
        return method.step_count % self.every == 0 and method.steps_since_reset > 0


class SegmentReset(Reset):
    """Resets when the corruption changes: the oracle that AETTA (Lee et al. 2024) calls DistShift.

    Only in a Trainer, where the batches say which segment of the stream they belong to. A batch that
    spans two segments counts as one of the new segment.
    """

    def __init__(self, keep_memory: bool = False) -> None:
        self.keep_memory = keep_memory
        self.current: int | None = None
        self.previous: int | None = None

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        self.previous, self.current = self.current, int(batch.segment[-1])
        super().on_test_batch_start(trainer, pl_module, batch)

    def should_reset(self, method: Adapting) -> bool:
        changed = self.previous is not None and self.current != self.previous
        return changed and method.steps_since_reset > 0

    def state_dict(self) -> dict[str, Any]:
        return {"current": self.current}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.current = state_dict["current"]


class MRS(Reset):
    """Resets when the loss has become suspiciously small: SAR's model recovery (Niu et al. 2023).

    The moving average e <- 0.9 e + 0.1 loss, which begins with the first loss and passes over steps
    without one, must not fall below `floor`.

    Args:
        floor: the smallest average, in nats, that is taken for healthy.
        keep_average: do not begin the average anew after a reset, as the official code, which
            therefore resets again and again until the average has climbed above the floor.
        keep_memory: see `Reset`.
    """

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
            first = self.average is None
            self.average = loss if first else 0.9 * self.average + (1 - 0.9) * loss  # type: ignore[operator]

    def should_reset(self, method: Adapting) -> bool:
        low = self.average is not None and self.average < self.floor
        return low and method.steps_since_reset > 0

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.average = state_dict["average"]


class AccuracyReset(Reset):
    """Resets when the estimated accuracy falls: AETTA's rule (Lee et al. 2024).

    It does if the last estimate is below `floor`, or if the mean of the last `window` estimates lies
    more than `margin` below the mean of the `window` before. Estimates from before a reset do not
    count, and batches without an estimate are passed over; but if images or logits were not finite,
    so that there could be none, it resets as well.

    Args:
        estimator: what to listen to: a callback with an attribute `latest`, or its class' name. In a
            Trainer it must be one of the callbacks; elsewhere, give the callback itself.
        window: length of the two windows compared.
        margin: 0.02 as in the official code; the paper does not mention it (0).
        floor: the smallest estimate that is taken for healthy.
        keep_memory: see `Reset`.
    """

    def __init__(
        self,
        estimator: str | Estimating = "AETTA",
        window: int = 5,
        margin: float = 0.02,
        floor: float = 0.2,
        keep_memory: bool = False,
    ) -> None:
        in_range(1, window=window)
        self.heard = None if isinstance(estimator, str) else estimator
        self.estimator = estimator if isinstance(estimator, str) else name_of(estimator)
        self.window, self.margin, self.floor = window, margin, floor
        self.keep_memory = keep_memory
        self.estimates: list[float] = []
        self.alarmed = False  # by a batch that was not finite

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self.listen(callbacks_of(trainer))

    def listen(self, watching: Sequence[object]) -> None:
        """Find the estimator among those that watch the run."""
        found: list[Any] = [c for c in watching if isinstance(c, Estimating)]
        named = [c for c in found if name_of(c) == self.estimator]
        if len(named) != 1:
            raise HoldfastError(
                f"AccuracyReset listens to {self.estimator}: have exactly one such callback in "
                f"the Trainer or Watch (estimators: {[name_of(c) for c in found] or 'none'})."
            )
        self.heard = named[0]

    def observe(self, method: Adapting) -> None:
        if method.steps_since_reset == 1:
            self.estimates = []
        if self.heard is None:
            raise HoldfastError(
                f"outside a Trainer, give AccuracyReset the {self.estimator} itself, not its name."
            )
        self.alarmed = getattr(self.heard, "not_finite", False)
        if self.heard.latest is not None:
            # Percent, as in the official code, so that a drop of just the margin is judged alike.
            percent = round(100 * float(self.heard.latest), 10)
            self.estimates = [*self.estimates, percent][-2 * self.window :]

    def should_reset(self, method: Adapting) -> bool:
        if method.steps_since_reset == 0:
            return False
        if self.alarmed or not self.estimates:
            return self.alarmed
        before, last = self.estimates[: -self.window], self.estimates[-self.window :]
        if len(before) < self.window:
            return last[-1] < 100 * self.floor
        drop = sum(last) / self.window + 100 * self.margin < sum(before) / self.window
        return last[-1] < 100 * self.floor or drop

    def state_dict(self) -> dict[str, Any]:
        return {"estimates": self.estimates, "alarmed": self.alarmed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.estimates = list(state_dict["estimates"])
        self.alarmed = state_dict.get("alarmed", False)
