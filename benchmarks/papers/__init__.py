"""The papers' tables and figures, in the order of their list."""

from . import rdumb, flips, aetta, agreement, citeme, monitoring, field  # noqa: I001, F401
from .engine.experiment import EXPERIMENTS, Experiment

__all__ = ["EXPERIMENTS", "Experiment"]
