"""Weighted Flips: chapter 3 of Ori Press's thesis, accuracy without labels for whole data sets."""

# The modules of its artefacts, in the thesis' order.
ARTEFACTS = (
    *("t3_1", "t3_2", "fig3_1", "fig3_2", "fig3_4", "fig3_5", "fig3_6", "fig3_7"),
    *("tb_1", "tb_2", "tb_3", "tb_4"),
    *("fig_b1", "fig_b2", "fig_b3", "fig_b4", "fig_b5", "fig_b6", "why"),
)
