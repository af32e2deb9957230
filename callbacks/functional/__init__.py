"""The estimators' formulas: logits, predictions and features in, numbers out."""
