"""A method of your own in one file, with state; `holdfast.methods.testing.check_method` checks it."""

from typing import Any

import torch
from torch import Tensor

from holdfast.methods import TTAMethod


class Anchored(TTAMethod):
    """Minimises entropy, and keeps the mean prediction near its moving average.

    Args:
        weight: of the distance from the average.
        rate: by which the average moves at each step, in (0, 1].
    """

    def __init__(
        self, backbone: str | torch.nn.Module, weight: float = 1.0, rate: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(backbone, **kwargs)
        self.weight, self.rate = weight, rate

    def fresh_state(self) -> dict[str, Any]:
        return {"average": None}  # so that reset, checkpoints and undone steps cover it

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        probabilities, average = logits.softmax(1), self.state["average"]
        entropy = -(probabilities * logits.log_softmax(1)).sum(1).mean()
        mean = probabilities.mean(0)
        if average is None:
            average = mean.detach()
        self.state["average"] = average.lerp(mean.detach(), self.rate)
        return entropy + self.weight * (mean - average).square().sum()
