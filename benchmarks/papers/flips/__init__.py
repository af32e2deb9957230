"""Weighted Flips: chapter 3 of Ori Press's thesis, accuracy without labels for whole data sets."""

# The modules of its artefacts, in the thesis' order.
ARTEFACTS = ("fig3_1", "fig3_2", "fig3_4", "fig3_5", "fb_1", "fb_4", "fb_5", "fb_6")
