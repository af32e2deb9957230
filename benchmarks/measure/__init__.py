"""Measure the costs of steps, estimators, corruptions and long runs."""
