"""One run from the command line: `holdfast test`, its options, errors and help."""
