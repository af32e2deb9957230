"""Commands for CCC streams: calibrations and shards."""
