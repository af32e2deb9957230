"""What callbacks may rely on in an adapting model, so that they need not import one."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Adapting(Protocol):
    """The public members of a test-time adaptation method (`methods.base.TTAMethod`)."""

    backbone: nn.Module
    step_count: int  # steps since the run began
    steps_since_reset: int
    reset_count: int
    trace: dict[str, Any]  # what the last step reports: loss, selected, ...

    @property
    def predictor(self) -> nn.Module:
        """The network whose predictions are scored: the backbone, or a teacher."""

    def stages(self) -> list[str]:
        """The modules that end the stages of `predictor`, in the order of computation; [] if none."""

    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored."""

    def predict(self, images: Tensor) -> Tensor:
        """The logits [B,C] that `adapt` would return next; changes nothing."""

    def recover(self) -> None:
        """Carry out a built-in reset that is due before the next step; doing so twice is harmless."""

    def reset(self) -> None:
        """Back to the source model, with a fresh optimizer and fresh method state."""

    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter that the optimizer changes, with its value in the source model."""

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers that depend only on the run's seed, the step since the reset and `purpose`."""


@runtime_checkable
class Estimating(Protocol):
    """What a reset may rely on in an accuracy estimator."""

    latest: float | None  # the accuracy in [0,1] estimated for the current batch; None: no estimate
