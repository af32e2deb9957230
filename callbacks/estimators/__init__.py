"""Estimators: a model's accuracy without labels."""
