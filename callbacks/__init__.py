"""Who watches and who steps in: estimators, resets, recorders."""

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
from .exporter import PrometheusExporter
from .gde import GDE
from .hold_out import HoldOut
from .independent_gde import IndependentGDE
from .label_budget import LabelBudget
from .mano import MaNo
from .monitor import RiskMonitor, Suitability
from .nuclear_norm import NuclearNorm
from .observer import Observer, PeriodicObserver
from .prediction_statistics import PredictionStatistics
from .progress import StreamProgress
from .protocol import Adapting, Estimating, Streaming
from .record import RunRecord
from .recovery import Recovery
from .reference import Reference
from .reset import MRS, AccuracyReset, AlarmReset, PeriodicReset, Reset, SegmentReset
from .restore import FisherRestore, Restore, StochasticRestore
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
