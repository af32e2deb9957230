"""How a model adapts: one LightningModule, one file, per method."""

from .backbones import load_backbone, normalised
from .base import TTAMethod
from .bn import BNAdapt
from .cmf import CMF
from .cotta import CoTTA
from .cpl import CPL
from .deyo import DeYO
from .eata import EATA
from .eta import ETA
from .lame import LAME
from .note import NOTE
from .petta import PeTTA
from .rdumb import RDumb
from .roid import ROID
from .rotta import RoTTA
from .rpl import RPL
from .sar import SAR
from .slr import SLR
from .sotta import SoTTA
from .source import Source
from .tent import Tent

__all__ = [
    "CMF",
    "CPL",
    "EATA",
    "ETA",
    "LAME",
    "NOTE",
    "ROID",
    "RPL",
    "SAR",
    "SLR",
    "BNAdapt",
    "CoTTA",
    "DeYO",
    "PeTTA",
    "RDumb",
    "RoTTA",
    "SoTTA",
    "Source",
    "TTAMethod",
    "Tent",
    "load_backbone",
    "normalised",
]
