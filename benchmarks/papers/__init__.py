"""The papers' tables and figures, in the order of their list."""

from . import (  # noqa: I001, F401
    rdumb_tables,
    rdumb_figures,
    rdumb_walks,
    flips_estimates,
    flips_phases,
    aetta_tables,
    agreement_tables,
    citeme_claims,
    monitoring_tables,
    field_tables,
)
from .experiment import EXPERIMENTS, Experiment

__all__ = ["EXPERIMENTS", "Experiment"]
