"""The files of a run: record, provenance, curves, checkpoints; and its progress bar."""
