"""What the model sees: streams of corrupted images as LightningDataModules."""

from .glyphs import Glyphs
from .sources import DatasetSource, Digits, ImageFolder, ImageSource

__all__ = ["DatasetSource", "Digits", "Glyphs", "ImageFolder", "ImageSource"]
