"""How a model adapts: one LightningModule, one file, per method."""

from .backbones import load_backbone, normalised
from .base import TTAMethod
from .bn import BNAdapt
from .cotta import CoTTA
from .cpl import CPL
from .eata import EATA
from .eta import ETA
from .rdumb import RDumb
from .rotta import RoTTA
from .rpl import RPL
from .sar import SAR
from .slr import SLR
from .sotta import SoTTA
from .source import Source
from .tent import Tent

__all__ = [
    "CPL",
    "EATA",
    "ETA",
    "RPL",
    "SAR",
    "SLR",
    "BNAdapt",
    "CoTTA",
    "RDumb",
    "RoTTA",
    "SoTTA",
    "Source",
    "TTAMethod",
    "Tent",
    "load_backbone",
    "normalised",
]
