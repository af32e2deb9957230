"""CiteME: search, read and select the paper behind a citation; nothing in here imports torch.

An agent is an `Agent`, what it searches a `SearchProvider`; both are protocols. Language models and
their providers are in `lm`, search providers in `search`, the agent with a language model in
`citeagent`, agents without one in `baselines`, and what the command line does in `commands`.
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
