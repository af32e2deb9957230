"""Weighted flips: Ori Press's thesis, chapter 3 and appendix B."""

from . import tables, figures  # noqa: F401, I001
