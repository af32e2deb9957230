"""AETTA: Lee et al. 2024."""

from . import tables  # noqa: F401
