"""Callbacks: estimators, monitors, observers, resets and recorders."""

from .estimators.adv_perturb import AdvPerturb
from .estimators.aetta import AETTA
from .estimators.atc import ATC
from .estimators.calibrated_confidence import CalibratedConfidence
from .estimators.concentration import Concentration
from .estimators.dataset_estimates import DatasetEstimates
from .estimators.doc import DoC
from .estimators.dropout_calibration import DropoutCalibration
from .estimators.estimator import AccuracyEstimator
from .estimators.gde import GDE
from .estimators.independent_gde import IndependentGDE
from .estimators.mano import MaNo
from .estimators.nuclear_norm import NuclearNorm
from .estimators.softmax_score import SoftmaxScore
from .estimators.source_agreement import SourceAgreement
from .estimators.src_valid import SrcValid
from .estimators.weighted_flips import WeightedFlips
from .monitors.alarm import Alarm, Alarming, Event
from .monitors.exporter import PrometheusExporter
from .monitors.label_budget import LabelBudget
from .monitors.monitor import RiskMonitor, Suitability
from .monitors.reference import Reference
from .observers.embedding_clusters import EmbeddingClusters
from .observers.hold_out import HoldOut
from .observers.observer import Observer, PeriodicObserver
from .observers.prediction_statistics import PredictionStatistics
from .observers.weight_magnitude import WeightMagnitude
from .protocols import Adapting, Estimating, Streaming
from .recording.checkpoint import StreamCheckpoint, newest
from .recording.progress import StreamProgress
from .recording.record import RunRecord
from .recovery.asr import ASR
from .recovery.drift import DisagreementReset, DriftReset, EntropyDrift, KLDrift
from .recovery.recovery import Recovery
from .recovery.reset import MRS, AccuracyReset, AlarmReset, PeriodicReset, Reset, SegmentReset
from .recovery.restore import FisherRestore, Restore, StochasticRestore
from .watch import Watch

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
    "LabelBudget",
    "MaNo",
    "NuclearNorm",
    "Observer",
    "PeriodicObserver",
    "PeriodicReset",
    "PredictionStatistics",
    "PrometheusExporter",
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
    "Suitability",
    "Watch",
    "WeightMagnitude",
    "WeightedFlips",
    "newest",
]
