"""What a run writes: record, provenance, curves, checkpoints, progress."""
