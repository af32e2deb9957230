"""What the model sees: streams of corrupted images as LightningDataModules."""

from ..batch import Batch
from .calibration import Calibration
from .ccc import CCC, find_path
from .cifar import CIFARC
from .cinc import CIN3DCC, CINC, CINCHoldout
from .concatenation import Clean, Corrupted
from .domain_order import MixedDomains, Recurring
from .label_shift import ClassImbalance, CorrelatedLabels
from .omitting import Omitting
from .sets import ImageSet
from .sources import ImageSource
from .sources.arrays import CIFAR, Digits
from .sources.folder import DatasetSource, ImageFolder, ImageNet
from .sources.glyphs import Glyphs
from .sources.shards import Shards
from .stream import Segment, Stream
from .wrapper import SegmentWrapper, StreamWrapper

__all__ = [
    "CCC",
    "CIFAR",
    "CIFARC",
    "CIN3DCC",
    "CINC",
    "Batch",
    "CINCHoldout",
    "Calibration",
    "ClassImbalance",
    "Clean",
    "CorrelatedLabels",
    "Corrupted",
    "DatasetSource",
    "Digits",
    "Glyphs",
    "ImageFolder",
    "ImageNet",
    "ImageSet",
    "ImageSource",
    "MixedDomains",
    "Omitting",
    "Recurring",
    "Segment",
    "SegmentWrapper",
    "Shards",
    "Stream",
    "StreamWrapper",
    "find_path",
]
