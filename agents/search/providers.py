"""From the options of a command to a search provider: one row each."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from ..cassette import Cassette
from ..limits import RateLimiter, Retry
from ..protocol import SearchProvider


def local(args: Namespace, cassette: Cassette | None) -> SearchProvider:
    """The file of papers at --corpus, ranked by BM25."""
    from .local import LocalSearch

    return LocalSearch(args.corpus)


def semantic_scholar(args: Namespace, cassette: Cassette | None) -> SearchProvider:
    """The Graph API, and open-access PDFs from wherever they lie."""
    from .fetch import Fetcher
    from .semantic_scholar import API, KEYS, SemanticScholar

    if not args.s2_api and not args.replay and not any(os.environ.get(k) for k in KEYS):
        print(
            f"No {KEYS[0]} in the environment: searches share a public pool, which is often full.",
            file=sys.stderr,
        )
    fetcher = Fetcher(
        allow_private=args.allow_private,
        limiter=RateLimiter(args.s2_per_second),
        cassette=cassette,
    )
    return SemanticScholar(
        args.s2_api or API,
        per_second=args.s2_per_second,
        retry=Retry(attempts=args.tries),
        fetcher=fetcher,
        cassette=cassette,
        cache=args.cache or cache_folder(),
        field=args.field,
    )


def cache_folder() -> Path:
    """Where texts of papers are kept unless --cache says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / "papers"


# A provider of one's own: its name for --search, and a function from the options.
PROVIDERS: dict[str, Callable[[Namespace, Cassette | None], SearchProvider]] = {
    "local": local,
    "semantic-scholar": semantic_scholar,
}
