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
    cache: Path | None = None,
    field: str | None = None,
    **unused: Any,
) -> SearchProvider:
    """Semantic Scholar's Graph API, and open-access PDFs from any server; their texts are cached."""
    from .semantic_scholar import API, KEY, SemanticScholar

    if not s2_api and not os.environ.get(KEY):
        limit = "searches use the public rate limit, which is often exhausted."
        print(f"{KEY} is not set: {limit}", file=sys.stderr)
    texts = (cache or Path.home() / ".cache" / "holdfast") / "papers"
    return SemanticScholar(s2_api or API, tries=tries, cache=texts, field=field)


# The name for --search, and a function that takes the options of `cite run` by name and ignores those that
# it does not need.
PROVIDERS: dict[str, Callable[..., SearchProvider]] = {
    "local": local,
    "semantic-scholar": semantic_scholar,
}
