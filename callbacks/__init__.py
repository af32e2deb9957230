"""Who watches and who steps in: estimators, resets, recorders."""

from .protocol import Adapting, Estimating
from .reset import MRS, AccuracyReset, PeriodicReset, Reset, SegmentReset
from .restore import FisherRestore, Restore, StochasticRestore

__all__ = [
    "MRS",
    "AccuracyReset",
    "Adapting",
    "Estimating",
    "FisherRestore",
    "PeriodicReset",
    "Reset",
    "Restore",
    "SegmentReset",
    "StochasticRestore",
]
