"""How a model adapts: one LightningModule, one file, per method."""

from .adacontrast import AdaContrast
from .backbones import load_backbone, normalised
from .base import TTAMethod
from .bn import BNAdapt
from .cmf import CMF
from .cotta import CoTTA
from .cpl import CPL
from .deyo import DeYO
from .eata import EATA
from .eta import ETA
from .gtta import GTTA
from .lame import LAME
from .note import NOTE
from .petta import PeTTA
from .rdumb import RDumb
from .rmt import RMT
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
    "GTTA",
    "LAME",
    "NOTE",
    "RMT",
    "ROID",
    "RPL",
    "SAR",
    "SLR",
    "AdaContrast",
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
