"""Weighted flips: Ori Press's thesis, chapter 3 and appendix B."""
