"""Weighted Flips: chapter 3 of Ori Press's thesis, accuracy without labels for whole data sets."""
