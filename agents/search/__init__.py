"""Paper search and reading; the table of search providers by name."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..data import MINI_CITE_CORPUS
from .provider import SearchProvider

_Corpus = str | Path


def _local(*, corpus: _Corpus = MINI_CITE_CORPUS, **unused: Any) -> SearchProvider:
    from .local import LocalSearch

    return LocalSearch(corpus)


def _semantic_scholar(
    *, search_api: str | None = None, tries: int = 6, prompt: str = "dspy", **unused: Any
) -> SearchProvider:
    from .semantic_scholar import API, KEY, SemanticScholar

    if not search_api and not os.environ.get(KEY):
        limit = "searches use the public rate limit, which is often exhausted."
        print(f"{KEY} is not set: {limit}", file=sys.stderr)
    is_citeme = prompt == "citeme"
    field = "Computer Science" if is_citeme else None
    return SemanticScholar(search_api or API, tries=tries, field=field, as_published=is_citeme)


def _online(module: str, provider: str) -> Callable[..., SearchProvider]:
    """A function that opens a service at its usual address, or at `search_api`."""

    def open_service(
        *, search_api: str | None = None, tries: int = 6, **unused: Any
    ) -> SearchProvider:
        service = getattr(import_module(f".{module}", __package__), provider)
        return service(*filter(None, [search_api]), tries=tries)

    return open_service


def _dense(
    *, corpus: _Corpus = MINI_CITE_CORPUS, encoder: str = "allenai/specter", **unused: Any
) -> SearchProvider:
    from .dense import DenseSearch, Specter

    return DenseSearch(corpus, Specter(encoder), encoder)


# The name for --search, and a function that takes the options of `cite run` by name and ignores those that
# it does not need.
PROVIDERS: dict[str, Callable[..., SearchProvider]] = {
    "local": _local,
    "semantic-scholar": _semantic_scholar,
    "openalex": _online("openalex", "OpenAlex"),
    "arxiv": _online("arxiv", "Arxiv"),
    "dense": _dense,
    "mcp": _online("mcp_server", "MCPSearch"),
}
