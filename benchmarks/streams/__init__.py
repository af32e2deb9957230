"""Commands for CCC streams: calibrations, walks and shards."""
