"""Who watches and who steps in: estimators, resets, recorders."""

from .estimator import AccuracyEstimator, SoftmaxScore
from .progress import StreamProgress
from .protocol import Adapting, Estimating
from .record import RunRecord
from .reset import MRS, AccuracyReset, PeriodicReset, Reset, SegmentReset
from .restore import FisherRestore, Restore, StochasticRestore

__all__ = [
    "MRS",
    "AccuracyEstimator",
    "AccuracyReset",
    "Adapting",
    "Estimating",
    "FisherRestore",
    "PeriodicReset",
    "Reset",
    "Restore",
    "RunRecord",
    "SegmentReset",
    "SoftmaxScore",
    "StochasticRestore",
    "StreamProgress",
]
