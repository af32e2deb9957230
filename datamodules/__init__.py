"""What the model sees: streams of corrupted images as LightningDataModules."""

from .batch import Batch

__all__ = ["Batch"]
