"""Who watches and who steps in: estimators, resets, recorders."""

from .protocol import Adapting
from .reset import PeriodicReset, Reset

__all__ = ["Adapting", "PeriodicReset", "Reset"]
