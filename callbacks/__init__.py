"""Who watches and who steps in: estimators, resets, recorders."""
