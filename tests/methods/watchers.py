"""Estimators and resets that run beside every method, and batches that have no finite image."""

import math
from collections.abc import Callable

from torch import Tensor

from holdfast import callbacks as cb
from holdfast.datamodules import Digits


def ruined(batch: Tensor) -> Tensor:
    """The images, each of which has a bad pixel."""
    batch = batch.clone()
    batch[:, 2, 4, 4] = math.nan
    return batch


class Argmax(cb.AccuracyEstimator):
    """One of a user's, that asks for classes without a thought."""

    def estimate(self, method: cb.Adapting, images: Tensor) -> float:
        return float((method.predict(images).argmax(1) == 0).float().mean())


ESTIMATORS: dict[str, Callable[[], cb.AccuracyEstimator]] = {
    "AETTA": lambda: cb.AETTA(passes=2, layers=["2", "5"]),
    "GDE": cb.GDE,
    "SoftmaxScore": cb.SoftmaxScore,
    "AdvPerturb": cb.AdvPerturb,
    "SrcValid": lambda: cb.SrcValid(Digits(), 8),
    "Argmax": Argmax,
}
RESETS: dict[str, Callable[[str], cb.Recovery]] = {
    "Periodic": lambda _: cb.PeriodicReset(4),
    "MRS": lambda _: cb.MRS(floor=1.5),
    "Stochastic": lambda _: cb.StochasticRestore(0.5),
    "Fisher": lambda _: cb.FisherRestore(0.5),
    "Accuracy": lambda name: cb.AccuracyReset(name, floor=0.0, margin=1.0),
}
