"""The contract of every method as checks, which `holdfast check-method` and Holdfast's own tests run."""

from . import hard, steps
from .common import CHECKS, NETS, Check, Make, Net

__all__ = ["CHECKS", "NETS", "Check", "Make", "Net", "hard", "steps"]
