"""Monitors on simulated streams; the hypotheses are ours."""

from . import tables  # noqa: F401
