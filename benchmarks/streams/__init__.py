"""Commands for CCC streams: calibrations, walks, shards."""
