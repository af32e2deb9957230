"""Callbacks: estimators, monitors, observers, resets and recorders."""

from .adv_perturb import AdvPerturb
from .aetta import AETTA
from .alarm import Alarm, Alarming, Event
from .asr import ASR
from .atc import ATC
from .calibrated_confidence import CalibratedConfidence
from .checkpoint import StreamCheckpoint, newest
from .concentration import Concentration
from .dataset_estimates import DatasetEstimates
from .doc import DoC
from .drift import DisagreementReset, DriftReset, EntropyDrift, KLDrift
from .dropout_calibration import DropoutCalibration
from .embedding_clusters import EmbeddingClusters
from .estimator import AccuracyEstimator
from .gde import GDE
from .hold_out import HoldOut
from .independent_gde import IndependentGDE
from .mano import MaNo
from .nuclear_norm import NuclearNorm
from .observer import Observer, PeriodicObserver
from .prediction_statistics import PredictionStatistics
from .progress import StreamProgress
from .protocols import Adapting, Estimating, Streaming
from .record import RunRecord
from .recovery import Recovery
from .resets import MRS, AccuracyReset, AlarmReset, PeriodicReset, Reset, SegmentReset
from .restore import FisherRestore, Restore, StochasticRestore
from .risk_monitor import Reference, RiskMonitor
from .softmax_score import SoftmaxScore
from .source_agreement import SourceAgreement
from .src_valid import SrcValid
from .watch import Watch
from .weight_magnitude import WeightMagnitude
from .weighted_flips import WeightedFlips

__all__ = [
    "AETTA",
    "ASR",
    "ATC",
    "GDE",
    "MRS",
    "AccuracyEstimator",
    "AccuracyReset",
    "Adapting",
    "AdvPerturb",
    "Alarm",
    "AlarmReset",
    "Alarming",
    "CalibratedConfidence",
    "Concentration",
    "DatasetEstimates",
    "DisagreementReset",
    "DoC",
    "DriftReset",
    "DropoutCalibration",
    "EmbeddingClusters",
    "EntropyDrift",
    "Estimating",
    "Event",
    "FisherRestore",
    "HoldOut",
    "IndependentGDE",
    "KLDrift",
    "MaNo",
    "NuclearNorm",
    "Observer",
    "PeriodicObserver",
    "PeriodicReset",
    "PredictionStatistics",
    "Recovery",
    "Reference",
    "Reset",
    "Restore",
    "RiskMonitor",
    "RunRecord",
    "SegmentReset",
    "SoftmaxScore",
    "SourceAgreement",
    "SrcValid",
    "StochasticRestore",
    "StreamCheckpoint",
    "StreamProgress",
    "Streaming",
    "Watch",
    "WeightMagnitude",
    "WeightedFlips",
    "newest",
]
