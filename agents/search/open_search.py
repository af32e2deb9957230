"""Open a search provider by name."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..cassette import Cassette, is_replay
from ..data import MINI_CITE_CORPUS
from ..limits import RateLimiter, Retry
from ..protocol import SearchProvider


def local(*, corpus: str | Path = MINI_CITE_CORPUS, **unused: Any) -> SearchProvider:
    """A corpus file, ranked by BM25."""
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
    """Semantic Scholar's Graph API, and open-access PDFs from any server; their texts are cached."""
    from .client import PDFClient
    from .semantic_scholar import API, KEYS, SemanticScholar

    if not (s2_api or is_replay(cassette) or any(os.environ.get(k) for k in KEYS)):
        print(
            f"{KEYS[0]} is not set: searches use the public rate limit, which is often exhausted.",
            file=sys.stderr,
        )
    limiter = RateLimiter(s2_per_second)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return SemanticScholar(
        s2_api or API,
        per_second=s2_per_second,
        retry=Retry(attempts=tries),
        fetcher=PDFClient(allow_private=allow_private, limiter=limiter, cassette=cassette),
        cassette=cassette,
        cache=cache or base / "holdfast" / "papers",
        field=field,
    )


# The name for --search, and a function that takes the options of `cite run` by name and ignores those that
# it does not need.
PROVIDERS: dict[str, Callable[..., SearchProvider]] = {
    "local": local,
    "semantic-scholar": semantic_scholar,
}
