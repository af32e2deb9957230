"""Comparison of all methods on independent, correlated and recurring streams."""
