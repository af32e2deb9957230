"""What a step, an estimator, a corruption and a long run cost."""
