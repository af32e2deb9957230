"""The leaderboard: entries from finished runs of a track, their check by replay, and tables with tiers."""
