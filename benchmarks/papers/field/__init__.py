"""The field after the seeds: methods on independent, correlated and recurring streams."""
