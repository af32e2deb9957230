"""AETTA: Towards Estimating Accuracy for Test-Time Adaptation (Lee et al. 2024)."""
