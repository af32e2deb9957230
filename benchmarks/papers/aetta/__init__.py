"""AETTA: Towards Estimating Accuracy for Test-Time Adaptation (Lee et al. 2024)."""

# The modules of its artefacts, in the paper's order.
ARTEFACTS = ("t1", "t2", "fig3", "fig5", "fig6", "t3", "thm3", "resets", "why", "ablation", "gde")
