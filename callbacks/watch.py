"""A method with its estimators and its reset, without a Trainer."""

import threading
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor

from .. import HoldfastError
from ..files import jsonable
from .alarm import Alarming
from .estimator import AccuracyEstimator
from .observer import Observer, name_apart
from .protocols import Recorded
from .provenance import check_same, method_identity
from .recovery import Recovery, arguments


class Watch:
    """For custom loops: one call per batch resets if due, estimates, adapts and records, as in a Trainer.

    Args:
        method: the method that adapts.
        estimators: called before each step; each has its estimate in `latest`.
        reset: a Reset or Restore; `AccuracyReset("AETTA")` finds its estimator among `estimators`.
        monitors: an `Alarm`, a `RiskMonitor`, ...: given the logits after each step; each has its `alarm`.

    Raises HoldfastError if the reset needs a Trainer, or an estimator that is missing.

    Example:
        >>> import torch
        >>> from holdfast.callbacks import AccuracyReset, SoftmaxScore, Watch
        >>> from holdfast.methods import Tent
        >>> score = SoftmaxScore()
        >>> watch = Watch(Tent("digits"), [score], AccuracyReset("SoftmaxScore"))
        >>> watch.step(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
        >>> 0 < score.latest < 1
        True
    """

    def __init__(
        self,
        method: Recorded,
        estimators: Sequence[AccuracyEstimator] | AccuracyEstimator = (),
        reset: Recovery | None = None,
        monitors: Sequence[Alarming] | Alarming = (),
    ) -> None:
        if reset is not None and not isinstance(reset, Recovery):
            raise HoldfastError(
                f"reset={type(reset).__name__}: pass one Reset or Restore, such as PeriodicReset(1000)."
            )
        self.method, self.reset = method, reset
        self.estimators = [estimators] if isinstance(estimators, Observer) else list(estimators)
        self.monitors = [monitors] if isinstance(monitors, Observer) else list(monitors)
        self._one_at_a_time = threading.RLock()
        watching = [*self.estimators, *self.monitors]
        name_apart(watching)
        for monitor in self.monitors:
            monitor.listen(watching)
        if reset is not None:
            reset.listen(watching)
            method.give_way(reset)

    def step(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored.

        Threads take turns. Raises HoldfastError if the images are not such a batch; nothing has changed
        then.
        """
        with self._one_at_a_time:
            return self._step(images)

    def _step(self, images: Tensor) -> Tensor:
        self.method.check_images(images)
        if self.reset is not None:
            self.reset.before_step(self.method)
        for monitor in self.monitors:
            monitor.before_step(self.method)
        for estimator in self.estimators:
            estimator.watch(self.method, images)
        logits = self.method.adapt(images)
        for monitor in self.monitors:
            monitor.after_step(logits)
        if self.reset is not None:
            self.reset.after_step(self.method)
        return logits

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of a state: method, weights, optimizer, resets, estimators and their settings."""
        resets = [] if self.reset is None else [self.reset]
        return jsonable(
            {
                **method_identity(self.method, *resets),
                "estimators": [{"name": c.name, **arguments(c)} for c in self.estimators],
                "monitors": [{"name": c.name, **arguments(c)} for c in self.monitors],
            }
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next steps depend on, for `torch.save`; loads with `weights_only=True`.

        It is a copy, so that other threads may go on with steps.
        """
        with self._one_at_a_time:
            states = deepcopy([part.state_dict() for part in self._parts()])
            return {"identity": self.identity, "states": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`, with the same bits.

        Raises HoldfastError if it is not such a state, or belongs to another method, backbone,
        estimator or reset, or to other settings of them; nothing has changed then.
        """
        if not isinstance(state, dict) or "states" not in state:
            raise HoldfastError(
                "The state does not come from this version's Watch.state_dict(). Pass one that does, or "
                "start without it."
            )
        remedy = "Make this Watch with the arguments of the saved one."
        check_same(state["identity"], self.identity, "state belongs to another Watch", remedy)
        with self._one_at_a_time:
            for part, saved in zip(self._parts(), state["states"], strict=True):
                part.load_state_dict(saved)

    def __getstate__(self) -> dict[str, Any]:
        return {
            k: v for k, v in vars(self).items() if k != "_one_at_a_time"
        }  # locks have no copies

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_at_a_time=threading.RLock())

    def _parts(self) -> list[Any]:
        """All that has a state."""
        resets = [] if self.reset is None else [self.reset]
        return [self.method, *self.estimators, *self.monitors, *resets]
