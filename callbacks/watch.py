"""A method with its estimators and its reset, where no Trainer calls them."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .. import HoldfastError
from .estimator import AccuracyEstimator
from .protocol import Adapting
from .recovery import Recovery
from .reset import AccuracyReset, SegmentReset


class Watch:
    """A loop of your own, one call a batch: reset if due, estimate, adapt, take note, as a Trainer does.

    Args:
        method: the method that adapts.
        estimators: asked before each step; each has its answer in `latest`.
        reset: a Reset or Restore; `AccuracyReset("AETTA")` finds its estimator among `estimators`.

    Raises:
        HoldfastError: if the reset needs a Trainer, or an estimator that is not there.

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
        method: Adapting,
        estimators: Sequence[AccuracyEstimator] = (),
        reset: Recovery | None = None,
    ) -> None:
        self.method, self.estimators, self.reset = method, list(estimators), reset
        if isinstance(reset, SegmentReset):
            raise HoldfastError(
                "SegmentReset must be told where the corruption changes: use a Trainer, or call "
                "method.reset() there."
            )
        if isinstance(reset, AccuracyReset):
            reset.listen(self.estimators)
        if reset is not None:
            reset.take_over(method)

    def step(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored."""
        if self.reset is not None:
            self.reset.before_step(self.method)
        for estimator in self.estimators:
            estimator.watch(self.method, images)
        logits = self.method.adapt(images)
        if self.reset is not None:
            self.reset.after_step(self.method)
        return logits

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next steps depend on, for `torch.save`; loads with `weights_only=True`."""
        return {
            "method": self.method.state_dict(),
            "estimators": [estimator.state_dict() for estimator in self.estimators],
            "reset": None if self.reset is None else self.reset.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was asked, with the same bits; made with the same arguments."""
        self.method.load_state_dict(state["method"])
        for estimator, saved in zip(self.estimators, state["estimators"], strict=True):
            estimator.load_state_dict(saved)
        if self.reset is not None:
            self.reset.load_state_dict(state["reset"])
