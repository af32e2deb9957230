"""Paper search and reading; the table of search providers by name."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data import MINI_CITE_CORPUS
from .provider import SearchProvider


def local(*, corpus: str | Path = MINI_CITE_CORPUS, **unused: Any) -> SearchProvider:
    """A corpus file, ranked by BM25."""
    from .local import LocalSearch

    return LocalSearch(corpus)


def semantic_scholar(
    *,
    search_api: str | None = None,
    tries: int = 6,
    prompt: str = "dspy",
    **unused: Any,
) -> SearchProvider:
    """Semantic Scholar's Graph API, and open-access PDFs from any server."""
    from .semantic_scholar import API, KEY, SemanticScholar

    if not search_api and not os.environ.get(KEY):
        limit = "searches use the public rate limit, which is often exhausted."
        print(f"{KEY} is not set: {limit}", file=sys.stderr)
    is_citeme = prompt == "citeme"
    field = "Computer Science" if is_citeme else None
    return SemanticScholar(search_api or API, tries=tries, field=field, as_published=is_citeme)


def openalex(*, tries: int = 6, search_api: str | None = None, **unused: Any) -> SearchProvider:
    """OpenAlex, and open-access PDFs from any server."""
    from .openalex import API, OpenAlex

    return OpenAlex(search_api or API, tries=tries)


def arxiv(*, tries: int = 6, search_api: str | None = None, **unused: Any) -> SearchProvider:
    """arXiv, by relevance."""
    from .arxiv import API, Arxiv

    return Arxiv(search_api or API, tries=tries)


def mcp(*, search_api: str | None = None, **unused: Any) -> SearchProvider:
    """An MCP server with the tools of Ai2's Asta."""
    from .mcp_server import URL, MCPSearch

    return MCPSearch(search_api or URL)


def dense(
    *, corpus: str | Path = MINI_CITE_CORPUS, encoder: str = "allenai/specter", **unused: Any
) -> SearchProvider:
    """A corpus file, ranked by embeddings."""
    from .dense import DenseSearch, Specter

    return DenseSearch(corpus, Specter(encoder), encoder)


# The name for --search, and a function that takes the options of `cite run` by name and ignores those that
# it does not need.
PROVIDERS: dict[str, Callable[..., SearchProvider]] = {
    "local": local,
    "semantic-scholar": semantic_scholar,
    "openalex": openalex,
    "arxiv": arxiv,
    "dense": dense,
    "mcp": mcp,
}
