"""How a model adapts: one LightningModule, one file, per method."""

from .backbones import load_backbone, normalised
from .base import TTAMethod
from .bn import BNAdapt
from .eata import EATA
from .eta import ETA
from .rdumb import RDumb
from .source import Source
from .tent import Tent

__all__ = [
    "EATA",
    "ETA",
    "BNAdapt",
    "RDumb",
    "Source",
    "TTAMethod",
    "Tent",
    "load_backbone",
    "normalised",
]
