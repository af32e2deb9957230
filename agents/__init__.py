"""CiteME: search, read and select the paper behind a citation; nothing here imports torch.

An `Agent` answers an `Episode`: one sample, its rules, and its search provider. Agents with a language
model are in `program` (DSPy) and `citeme` (the paper's form), agents without one in `baselines`, search
providers in `search`, and the lines of result files in `records`. `run` runs an agent over a data set,
`score` computes the figures of its result file, and `cite` lists the commands.
"""

from .episode import Agent as Agent
from .episode import Episode as Episode
from .episode import Stop as Stop
from .search.provider import Paper as Paper
from .search.provider import ProviderError as ProviderError
from .search.provider import ReadError as ReadError
from .search.provider import Scope as Scope
from .search.provider import SearchProvider as SearchProvider
from .search.provider import Section as Section
