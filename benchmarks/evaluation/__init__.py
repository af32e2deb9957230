"""Accuracy without labels: the subcommands of `holdfast estimators`."""
