"""Weighted Flips: chapter 3 of Ori Press's thesis, accuracy without labels for whole data sets."""

# The modules of its artefacts, in the thesis' order.
ARTEFACTS = ("fb_1",)
