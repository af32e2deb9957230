"""Estimators and resets that run beside every method, and batches that have no finite image."""

import math
from collections.abc import Callable

from torch import Tensor

from holdfast.callbacks import (
    AETTA,
    GDE,
    MRS,
    AccuracyEstimator,
    AccuracyReset,
    Adapting,
    AdvPerturb,
    FisherRestore,
    PeriodicReset,
    Recovery,
    SoftmaxScore,
    SrcValid,
    StochasticRestore,
)
from holdfast.datamodules import Digits


def ruined(batch: Tensor) -> Tensor:
    """The images, each of which has a bad pixel."""
    batch = batch.clone()
    batch[:, 2, 4, 4] = math.nan
    return batch


class Argmax(AccuracyEstimator):
    """One of a user's, that asks for classes without a thought."""

    def estimate(self, method: Adapting, images: Tensor) -> float:
        return float((method.predict(images).argmax(1) == 0).float().mean())


ESTIMATORS: dict[str, Callable[[], AccuracyEstimator]] = {
    "AETTA": lambda: AETTA(passes=2, layers=["2", "5"]),
    "GDE": GDE,
    "SoftmaxScore": SoftmaxScore,
    "AdvPerturb": AdvPerturb,
    "SrcValid": lambda: SrcValid(Digits(), 8),
    "Argmax": Argmax,
}
RESETS: dict[str, Callable[[str], Recovery]] = {
    "Periodic": lambda _: PeriodicReset(4),
    "MRS": lambda _: MRS(floor=1.5),
    "Stochastic": lambda _: StochasticRestore(0.5),
    "Fisher": lambda _: FisherRestore(0.5),
    "Accuracy": lambda name: AccuracyReset(name, floor=0.0, margin=1.0),
}
