"""GDE: agreement with the model before its last step."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .estimator import AccuracyEstimator, predicted
from .functional.scores import agreement
from .protocols import Adapting


class GDE(AccuracyEstimator):
    """Share of the batch on which the model agrees with itself before its last step.

    AETTA's variant (Lee et al. 2024, baseline) of generalisation disagreement (Jiang et al. 2022),
    which compares two models trained independently (`agreement.naive_agreement`). The estimate is 1
    on the first batch.
    """

    STATE = ("previous",)

    def __init__(self) -> None:
        self.previous: list[Tensor] | None = None

    def estimate(self, method: Adapting, images: Tensor) -> Tensor | float:
        tensors = weights(method.predictor)
        answer: Tensor | float = 1.0
        if self.previous is not None:
            now = predicted(method, images)
            with exchanged(tensors, self.previous):
                answer = agreement(now, predicted(method, images))
        self.previous = [tensor.detach().clone() for tensor in tensors]
        return answer


def weights(network: nn.Module) -> list[Tensor]:
    """All tensors, of any shape, on which predictions depend, always in the same order."""
    return [*network.parameters(), *network.buffers()]


@contextmanager
def exchanged(tensors: list[Tensor], values: list[Tensor]) -> Iterator[None]:
    """Temporarily replace the data of tensors of any shape by values of the same shapes, without
    copying."""
    own = [tensor.data for tensor in tensors]
    try:
        for tensor, value in zip(tensors, values, strict=True):
            tensor.data = value.to(tensor.device)
        torch.clear_autocast_cache()
        yield
    finally:
        for tensor, value in zip(tensors, own, strict=True):
            tensor.data = value
        torch.clear_autocast_cache()
