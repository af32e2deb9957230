"""When an adapting model goes back to its source."""

from abc import ABC, abstractmethod
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from .protocol import Adapting


class Reset(Callback, ABC):
    """Resets the method before a step whenever `should_reset` says so; subclasses override that.

    Resets come before all other callbacks of the Trainer, so that estimators see the weights that
    the batch will be predicted with.
    """

    @abstractmethod
    def should_reset(self, method: Adapting) -> bool:
        """Whether to return to the source model before the step that is about to begin."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        callbacks.sort(key=lambda callback: not isinstance(callback, Reset))

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        method: Any = pl_module
        if self.should_reset(method):
            method.reset()


class PeriodicReset(Reset):
    """Resets every `every` steps, as RDumb does (Press et al. 2023, section 5).

    >>> PeriodicReset(every=1)  # episodic: each batch starts from the source model
    PeriodicReset(every=1)
    """

    def __init__(self, every: int = 1000) -> None:
        if every < 1:
            raise ValueError(f"every={every}: give a number of steps of at least 1")
        self.every = every

    def __repr__(self) -> str:
        return f"PeriodicReset(every={self.every})"

    def should_reset(self, method: Adapting) -> bool:
        return method.step_count % self.every == 0 and method.steps_since_reset > 0
