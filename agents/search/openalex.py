"""Search and reading through OpenAlex.

https://developers.openalex.org: the key in OPENALEX_API_KEY is sent as `api_key`, without which a small
daily allowance applies; the address in OPENALEX_MAIL as `mailto`, for the polite pool.
"""

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pydantic import ValidationError

from .client import OnlineSearch
from .provider import Paper, Scope, Sort

API = "https://api.openalex.org"
KEY, MAIL = "OPENALEX_API_KEY", "OPENALEX_MAIL"
_FIELDS = (
    "id,doi,title,display_name,publication_year,publication_date,cited_by_count,authorships,"
    "abstract_inverted_index,best_oa_location,primary_location"
)
_PAGE = 50
_PAGES = 4  # looked through for papers in scope
_SORTS: dict[Sort, str] = {"relevance": "relevance_score:desc", "citations": "cited_by_count:desc"}


class OpenAlex(OnlineSearch):
    """The search provider, at `api` or a mirror; further arguments are those of `Client`.

    Citation order is over all works that match.
    """

    name, service = "openalex", "OpenAlex"

    def __init__(self, api: str = API, *, per_second: float | None = 5.0, **transfer: Any) -> None:
        mail = os.environ.get(MAIL)
        headers = {"User-Agent": f"holdfast (mailto:{mail})"} if mail else {}
        super().__init__(api, headers, per_second=per_second, **transfer)
        self._access = {"api_key": os.environ.get(KEY), "mailto": mail}

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; raises `ProviderError`."""
        papers = {p.id: p for p in islice(self._results(query, sort, scope), limit)}
        return list(papers.values())

    def _results(self, query: str, sort: Sort, scope: Scope) -> Iterator[Paper]:
        # Commas separate filters, and these characters are operators of a search.
        words = "".join(" " if c in '"()|!?*~,:' else c for c in query).split()
        if not words:
            return
        params: dict[str, Any] = {"search": " ".join(words).lower(), "sort": _SORTS[sort]}
        params |= {"per_page": _PAGE, "select": _FIELDS, **self._access}
        if scope.until:
            last = scope.until if len(scope.until) == 10 else f"{scope.until[:4]}-12-31"
            params["filter"] = f"to_publication_date:{last}"
        for page in range(1, _PAGES + 1):
            answer = self._client.json(f"{self.api}/works", {**params, "page": page})
            works = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(works, list):
                raise self.unexpected(answer)
            yield from filter(scope.admits, filter(None, map(_paper_of, works)))
            if len(works) < _PAGE:
                return


def _paper_of(work: Any) -> Paper | None:
    """Convert a work to a paper; None if it is malformed or has no title."""
    try:
        doi = work.get("doi")
        locations = (work.get("best_oa_location"), work.get("primary_location"))
        pdfs = [location.get("pdf_url") for location in locations if location]
        return Paper(
            id=work["id"].rpartition("/")[2],
            title=work["display_name"],
            abstract=_abstract(work.get("abstract_inverted_index")),
            year=work.get("publication_year"),
            date=work.get("publication_date"),
            citations=work.get("cited_by_count"),
            authors=tuple(a["author"]["display_name"] for a in work.get("authorships") or []),
            ids=frozenset([f"doi:{doi.partition('doi.org/')[2]}".lower()] if doi else []),
            pdf=next(filter(None, pdfs), None),
        )
    except (AttributeError, KeyError, TypeError, ValidationError):
        return None


def _abstract(positions: dict[str, list[int]] | None) -> str | None:
    """The text of an index from words to their positions."""
    if not positions:
        return None
    words = sorted((k, word) for word, where in positions.items() for k in where)
    return " ".join(word for _, word in words)
