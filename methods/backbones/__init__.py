"""Networks by name: their source, structure, weights and normalisation."""

from .clip import zero_shot
from .load import load_backbone, weights_hash
from .normalise import normalised

__all__ = ["load_backbone", "normalised", "weights_hash", "zero_shot"]
