"""Networks by name: their source, structure, weights and normalisation."""

from .layers import normalised
from .libraries import zero_shot
from .load import load_backbone, weights_hash

__all__ = ["load_backbone", "normalised", "weights_hash", "zero_shot"]
