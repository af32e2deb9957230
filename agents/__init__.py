"""CiteME: search, read and select the paper behind a citation; nothing here imports torch.

An `Agent` answers an `Episode`, one sample with its rules, by means of a `SearchProvider`. Agents with a
language model are in `program` (DSPy) and `citeme` (the paper's form), agents without one in `baselines`,
search providers in `search`, the lines of result files in `records`, and the command in `cite`.
"""

from .episode import Agent, Episode, Stop
from .search.provider import Paper, ProviderError, ReadError, Scope, SearchProvider, Section

__all__ = [
    "Agent",
    "Episode",
    "Paper",
    "ProviderError",
    "ReadError",
    "Scope",
    "SearchProvider",
    "Section",
    "Stop",
]
