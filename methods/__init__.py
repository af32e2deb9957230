"""How a model adapts: one LightningModule, one file, per method."""

from .adacontrast import AdaContrast
from .backbones import load_backbone, normalised
from .base import TTAMethod
from .batclip import BATCLIP
from .bn import BNAdapt
from .bnema import BNEMA
from .cmf import CMF
from .cotta import CoTTA
from .cpl import CPL
from .deyo import DeYO
from .eata import EATA
from .eta import ETA
from .foa import FOA
from .gtta import GTTA
from .lame import LAME
from .memo import MEMO
from .note import NOTE
from .petta import PeTTA
from .rdumb import RDumb
from .rem import REM
from .rmt import RMT
from .roid import ROID
from .rotta import RoTTA
from .rpl import RPL
from .santa import SANTA
from .sar import SAR
from .slr import SLR
from .sotta import SoTTA
from .source import Source
from .tda import TDA
from .tent import Tent
from .tpt import TPT
from .ttaug import TTAug
from .vte import VTE

__all__ = [
    "BATCLIP",
    "BNEMA",
    "CMF",
    "CPL",
    "EATA",
    "ETA",
    "FOA",
    "GTTA",
    "LAME",
    "MEMO",
    "NOTE",
    "REM",
    "RMT",
    "ROID",
    "RPL",
    "SANTA",
    "SAR",
    "SLR",
    "TDA",
    "TPT",
    "VTE",
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
    "TTAug",
    "Tent",
    "load_backbone",
    "normalised",
]
