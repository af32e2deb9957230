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
    s2_api: str | None = None,
    tries: int = 6,
    prompt: str = "dspy",
    **unused: Any,
) -> SearchProvider:
    """Semantic Scholar's Graph API, and open-access PDFs from any server."""
    from .semantic_scholar import API, KEY, SemanticScholar

    if not s2_api and not os.environ.get(KEY):
        limit = "searches use the public rate limit, which is often exhausted."
        print(f"{KEY} is not set: {limit}", file=sys.stderr)
    is_citeme = prompt == "citeme"
    field = "Computer Science" if is_citeme else None
    return SemanticScholar(s2_api or API, tries=tries, field=field, as_published=is_citeme)


# The name for --search, and a function that takes the options of `cite run` by name and ignores those that
# it does not need.
PROVIDERS: dict[str, Callable[..., SearchProvider]] = {
    "local": local,
    "semantic-scholar": semantic_scholar,
}
