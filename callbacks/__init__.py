"""Callbacks: estimators, alarms, resets and restores, observers, and the record of a run."""

from .aetta import AETTA, DropoutCalibration
from .agreement import GDE, AdvPerturb, IndependentGDE, SourceAgreement, SrcValid
from .alarm import Alarm, Alarming, Event
from .asr import ASR
from .checkpoint import StreamCheckpoint, newest
from .dataset_estimates import DatasetEstimates
from .drift import DisagreementReset, DriftReset, EntropyDrift, KLDrift
from .embedding_clusters import EmbeddingClusters
from .estimator import AccuracyEstimator
from .fitted import (
    ATC,
    CalibratedConfidence,
    Concentration,
    DoC,
    MaNo,
    NuclearNorm,
    SoftmaxScore,
)
from .observer import Observer
from .observers import HoldOut, PeriodicObserver, PredictionStatistics, WeightMagnitude
from .protocols import Adapting, Estimating, Streaming
from .record import RunRecord
from .recovery import FisherRestore, Recovery, Restore, StochasticRestore
from .resets import MRS, AccuracyReset, AlarmReset, PeriodicReset, Reset, SegmentReset
from .risk_monitor import Reference, RiskMonitor
from .watch import Watch
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
    "Streaming",
    "Watch",
    "WeightMagnitude",
    "WeightedFlips",
    "newest",
]
