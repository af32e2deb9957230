"""RDumb and CCC: Press et al. 2023, and chapter 2 of Ori Press's thesis, whose numbering this is."""

# The modules of its artefacts, in the paper's order.
ARTEFACTS = (
    *("holdout", "runs27", "t2_1", "t2_2", "t2_3", "t2_4", "t2_5", "ta_1", "ta_2", "ta_3", "ta_4"),
    *("fig2_1", "fig2_2", "fig2_3", "fig2_4", "fig2_5a", "fig2_5b", "fig2_6", "fig2_6c"),
    *("fig_a3", "fig_a5", "fig_a5c", "f1"),
)
METHODS = ("Source", "BNAdapt", "Tent", "RPL", "SLR", "CPL", "CoTTA", "EATA", "ETA", "RDumb")
CCC = ("CCC-Easy", "CCC-Medium", "CCC-Hard")
BOTH = {  # the suites of CIN-C and of CCC, at each scale
    "embedded": ("rdumb/cin-c-glyphs", "rdumb/ccc-glyphs"),
    "full": ("rdumb/cin-c", "rdumb/ccc"),
}
# Source models of the embedded suites that `holdfast paper` trains: the options of train-source.
WIDTHS = {
    f"runs/source/glyphs-width{width}.safetensors": ("glyphs", "--width", str(width))
    for width in (8, 24)
}
GROUPNORM = {"runs/source/glyphs-groupnorm.safetensors": ("glyphs", "--norm", "group")}
