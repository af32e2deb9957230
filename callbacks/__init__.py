"""Who watches and who steps in: estimators, resets, recorders."""

from .estimator import AccuracyEstimator, SoftmaxScore
from .progress import StreamProgress
from .protocol import Adapting
from .record import RunRecord
from .reset import PeriodicReset, Reset

__all__ = [
    "AccuracyEstimator",
    "Adapting",
    "PeriodicReset",
    "Reset",
    "RunRecord",
    "SoftmaxScore",
    "StreamProgress",
]
