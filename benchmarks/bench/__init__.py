"""Measure what steps, streams, estimators and loaders cost."""
