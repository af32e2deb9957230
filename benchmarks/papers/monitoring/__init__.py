"""Monitors on simulated streams; the hypotheses are ours."""

from . import forecast, tables  # noqa: F401
