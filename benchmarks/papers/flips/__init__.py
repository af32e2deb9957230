"""Weighted Flips: chapter 3 of Ori Press's thesis, accuracy of whole datasets without labels."""
