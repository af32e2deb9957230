"""Weighted Flips: chapter 3 of Ori Press's thesis, accuracy without labels for whole data sets."""

# The modules of its artefacts, in the thesis' order.
ARTEFACTS = ("t3_1", "fig3_6", "fig3_7", "fb_1", "fig_b2", "fig_b3")
