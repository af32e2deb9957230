"""Reproduction of the papers: published numbers, our runs, and verdicts on the papers' claims."""
