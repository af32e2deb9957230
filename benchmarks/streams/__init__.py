"""What CCC streams are built from: calibrations, walks, shards."""
