"""Networks by name: their source, structure, weights and normalisation."""

from .layers import normalised as normalised
from .libraries import zero_shot as zero_shot
from .load import load_backbone as load_backbone
from .load import weights_hash as weights_hash
