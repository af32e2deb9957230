"""From a name to a search provider: one row each."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..cassette import Cassette
from ..data import MINI_CITE_CORPUS
from ..limits import RateLimiter, Retry
from ..protocol import SearchProvider


def local(*, corpus: str | Path = MINI_CITE_CORPUS, **unused: Any) -> SearchProvider:
    """The file of papers `corpus`, ranked by BM25."""
    from .local import LocalSearch

    return LocalSearch(corpus)


def semantic_scholar(
    *,
    s2_api: str | None = None,
    s2_per_second: float = 1.0,
    tries: int = 6,
    allow_private: bool = False,
    cache: Path | None = None,
    field: str | None = None,
    cassette: Cassette | None = None,
    **unused: Any,
) -> SearchProvider:
    """The Graph API, and open-access PDFs from any server; texts of papers are cached."""
    from .client import PDFClient
    from .semantic_scholar import API, KEYS, SemanticScholar

    replaying = cassette is not None and cassette.mode == "replay"
    if not s2_api and not replaying and not any(os.environ.get(k) for k in KEYS):
        print(
            f"No {KEYS[0]} in the environment: searches share a public pool, which is often full.",
            file=sys.stderr,
        )
    limiter = RateLimiter(s2_per_second)
    return SemanticScholar(
        s2_api or API,
        per_second=s2_per_second,
        retry=Retry(attempts=tries),
        fetcher=PDFClient(allow_private=allow_private, limiter=limiter, cassette=cassette),
        cassette=cassette,
        cache=cache or cache_folder(),
        field=field,
    )


def cache_folder() -> Path:
    """Where texts of papers are cached unless --cache says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / "papers"


# Further providers: a name for --search, and a function that takes the options of `cite run` it needs
# by name, and ignores the others.
PROVIDERS: dict[str, Callable[..., SearchProvider]] = {
    "local": local,
    "semantic-scholar": semantic_scholar,
}
