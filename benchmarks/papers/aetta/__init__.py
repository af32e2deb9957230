"""AETTA: Lee et al. 2024."""
