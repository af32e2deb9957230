"""Who watches and who steps in: estimators, resets, recorders."""

from .adv_perturb import AdvPerturb
from .aetta import AETTA
from .dataset_estimates import DatasetEstimates
from .estimator import AccuracyEstimator
from .gde import GDE
from .progress import StreamProgress
from .protocol import Adapting
from .record import RunRecord
from .reset import PeriodicReset, Reset
from .softmax_score import SoftmaxScore
from .src_valid import SrcValid
from .weighted_flips import WeightedFlips

__all__ = [
    "AETTA",
    "GDE",
    "AccuracyEstimator",
    "Adapting",
    "AdvPerturb",
    "DatasetEstimates",
    "PeriodicReset",
    "Reset",
    "RunRecord",
    "SoftmaxScore",
    "SrcValid",
    "StreamProgress",
    "WeightedFlips",
]
