"""CiteME: search, read and select the paper behind a citation; nothing here imports torch.

`Agent` and `SearchProvider` are protocols. Language models are in `lm`, search providers in `search`, the
agent with a language model in `citeagent`, agents without one in `baselines`, the records of result files
in `schema`, and commands in `commands` or next to the code that they call.
"""

from .episode import Episode, Stop
from .protocol import Agent, Paper, ProviderError, ReadError, Scope, SearchProvider, Section

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
