"""Agreement-on-the-line for finetuned models: Saxena et al. 2024 (arXiv 2404.01542)."""

# The modules of its artefacts, in the paper's order.
ARTEFACTS = ("fig1", "fig2", "fig3", "t1", "t3")
