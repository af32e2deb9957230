"""Alarms: raise an event when an estimate of accuracy falls, without a reset."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .. import HoldfastError, in_range
from ..alarms import RULES, Rule, Seen, State
from .observer import InPredictions, name_of
from .protocols import Adapting, Estimating, callbacks_of, method_of


class Event(NamedTuple):
    """An alarm that has just been raised."""

    name: str  # of the alarm or monitor
    step: int  # after which it was raised; the first is 0
    details: Mapping[str, float]  # its columns of the record
    reason: str  # the evidence of its rule, in one sentence


class Alarming(InPredictions):
    """Decides after each batch whether to raise an alarm: column `alarm` of the record, 1 or 0.

    In a Trainer it is a callback; `Watch` takes it among its `monitors`. Without either, call
    `before_step(method)` before each step and `after_step(logits)` after it.
    """

    alarm = False  # whether it is raised
    on_alarm: Callable[[Event], None] | None = None  # called once, when it is raised
    method: Adapting | None = None  # of the current step
    reason = ""  # the evidence of its rule while the alarm is raised, in one sentence

    @abstractmethod
    def judge(self, logits: Tensor) -> None:
        """Set `alarm`, `details` and `reason` after a step with these scored logits [B,C]."""

    def listen(self, watching: Sequence[object]) -> None:
        """Find the callbacks that it depends on among those of the run; default: none."""

    def restart(self) -> None:
        """Clear the alarm and start again, as after a reset."""
        self.alarm, self.reason = False, ""

    def before_step(self, method: Adapting) -> None:
        """Prepare for a step."""
        self.method = method

    def after_step(self, logits: Tensor) -> bool:
        """Process a step's scored logits [B,C]; returns whether the alarm is raised."""
        before = self.alarm
        self.judge(logits)
        if self.alarm and not before and self.on_alarm is not None and self.method is not None:
            step = self.method.step_count - 1
            self.on_alarm(Event(self.name, step, {**self.details}, self.reason))
        return self.alarm

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.listen(callbacks_of(trainer))

    def on_test_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        with trainer.precision_plugin.test_step_context():
            self.before_step(method_of(pl_module))

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.after_step(outputs["logits"])


class Alarm(Alarming):
    """Raises an alarm by a rule about estimates of accuracy, and resets nothing. To reset when it
    is raised, use `AlarmReset`, or `AccuracyReset`, which has an alarm built in.

    Args:
        estimator: an estimator, or its name among the callbacks of the Trainer or in `Watch`.
        rule: "drop", "below source" or "collapse" with their defaults, or a rule of `holdfast.alarms`
            with settings of your own, such as `Drop(floor=0.5)`.
        source: the source model's accuracy in [0,1], or its estimator's name, for rules that use it.
        on_alarm: called with an `Event` when the alarm is raised.

    Raises HoldfastError if the rule does not exist, or lacks a source.
    """

    STATE = ("memory", "alarm")

    def __init__(
        self,
        estimator: str | Estimating = "AETTA",
        rule: str | Rule = "drop",
        source: float | str | None = None,
        on_alarm: Callable[[Event], None] | None = None,
    ) -> None:
        in_range(0, 1, source=None if isinstance(source, str) else source)
        if isinstance(rule, str) and rule not in RULES:
            raise HoldfastError(f"rule={rule} is unknown. Choose from {', '.join(RULES)}.")
        self.judged_by = RULES[rule]() if isinstance(rule, str) else rule
        self.rule = str(self.judged_by)
        if self.judged_by.needs_source and source is None:
            raise HoldfastError(
                f"The rule '{rule}' needs the source model. Pass source=ACCURACY, or its estimator's name."
            )
        self.source, self.on_alarm = source, on_alarm
        self.heard = None if isinstance(estimator, str) else estimator
        self.estimator = name_of(estimator) if self.heard else str(estimator)
        self.of_source: Estimating | None = None
        self.memory: State = ()

    def listen(self, watching: Sequence[object]) -> None:
        self.heard = only(self.estimator, watching, self.name, "latest")
        if isinstance(self.source, str):
            self.of_source = only(self.source, watching, self.name, "latest")

    def judge(self, logits: Tensor | None = None) -> None:
        """Apply the rule; the logits [B,C] do not count.

        Raises HoldfastError if the estimator, or `before_step`, is missing.
        """
        if self.heard is None or (isinstance(self.source, str) and self.of_source is None):
            raise HoldfastError(
                f"Outside a Trainer or Watch, pass {self.name} the {self.estimator}, not its name."
            )
        if self.method is None:
            raise HoldfastError(f"Call {self.name}.before_step(method) before after_step(logits).")
        source = self.source if self.of_source is None else self.of_source.latest
        seen = Seen(
            None if self.heard.latest is None else float(self.heard.latest),
            None if source is None else float(source),
            self.method.steps_since_reset == 1,
            getattr(self.heard, "not_finite", False),
        )
        self.memory, self.alarm = self.judged_by(self.memory, seen)
        self.reason = self.judged_by.reason(self.memory, seen) if self.alarm else ""
        self.details = {"alarm": float(self.alarm)}

    def restart(self) -> None:
        super().restart()
        self.memory = ()


def only(name: str, watching: Sequence[object], asking: str, member: str) -> Any:
    """The callback of that name with this member, such as `latest`, among those of a run.

    Raises HoldfastError if there is not exactly one.
    """
    candidates = [c for c in watching if hasattr(c, member)]
    named = [c for c in candidates if name_of(c) == name]
    if len(named) != 1:
        raise HoldfastError(
            f"{asking} uses {name}: add exactly one such callback to the Trainer or Watch "
            f"(there are: {', '.join(map(name_of, candidates)) or 'none'})."
        )
    return named[0]
