"""What the model sees: streams of corrupted images as LightningDataModules."""

from .batch import Batch
from .calibration import Calibration
from .ccc import CCC, find_path
from .glyphs import Glyphs
from .shards import Shards
from .sources import DatasetSource, Digits, ImageFolder, ImageSource
from .stream import Segment, Stream

__all__ = [
    "CCC",
    "Batch",
    "Calibration",
    "DatasetSource",
    "Digits",
    "Glyphs",
    "ImageFolder",
    "ImageSource",
    "Segment",
    "Shards",
    "Stream",
    "find_path",
]
