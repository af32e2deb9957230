"""What callbacks may rely on in an adapting model, so that they need not import one."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Adapting(Protocol):
    """The public members of a test-time adaptation method (`methods.base.TTAMethod`)."""

    backbone: nn.Module
    step_count: int  # steps since the run began
    steps_since_reset: int
    reset_count: int
    trace: dict[str, Any]  # what the last step reports: loss, selected, ...

    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored."""

    def predict(self, images: Tensor) -> Tensor:
        """Logits [B,C] of the current model; changes nothing."""

    def recover(self) -> None:
        """Carry out a built-in reset that is due before the next step; doing so twice is harmless."""

    def reset(self) -> None:
        """Back to the source model, with a fresh optimizer and fresh method state."""
