"""What every method promises, as checks: `holdfast check-method` runs them, and so do our own tests."""

from . import hard, steps
from .common import CHECKS, NETS, Check, Make, Net

__all__ = ["CHECKS", "NETS", "Check", "Make", "Net", "hard", "steps"]
