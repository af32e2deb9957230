"""Agreement-on-the-line for finetuned models: Saxena et al. 2024 (arXiv 2404.01542)."""
