"""What the model sees: streams of corrupted images as LightningDataModules."""

from .batch import Batch
from .calibration import Calibration
from .ccc import CCC, find_path
from .cifar import CIFAR, CIFARC
from .cinc import CIN3DCC, CINC, CINCHoldout
from .concatenation import Clean, Corrupted
from .sets import ImageSet
from .sources.base import DatasetSource, Digits, ImageFolder, ImageSource
from .sources.glyphs import Glyphs
from .sources.imagenet import ImageNet
from .sources.shards import Shards
from .stream import Segment, Stream

__all__ = [
    "CCC",
    "CIFAR",
    "CIFARC",
    "CIN3DCC",
    "CINC",
    "Batch",
    "CINCHoldout",
    "Calibration",
    "Clean",
    "Corrupted",
    "DatasetSource",
    "Digits",
    "Glyphs",
    "ImageFolder",
    "ImageNet",
    "ImageSet",
    "ImageSource",
    "Segment",
    "Shards",
    "Stream",
    "find_path",
]
