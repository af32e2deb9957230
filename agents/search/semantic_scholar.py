"""Search and reading through the Semantic Scholar Graph API.

https://api.semanticscholar.org/api-docs/graph: with an API key one request per second over all endpoints;
without a key a public rate limit, which is often exhausted.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import ValidationError

from ..matching import official_match
from .client import Client, OnlineSearch
from .provider import Paper, Scope, Snippet, Sort

API = "https://api.semanticscholar.org/graph/v1"
KEY = "S2_API_KEY"
_FIELDS = "title,abstract,year,publicationDate,citationCount,authors.name,externalIds,openAccessPdf"
CITATION_POOL = 100  # CiteME sorts the 100 most relevant papers by citations
_PAGE = 20
_MAX_QUERY = 300  # characters; longer queries are refused as too long a URL
_MAX_OFFSET = 1000  # the API's limit


class SemanticScholar(OnlineSearch):
    """The search provider, at `api` or a mirror; further arguments are those of `Client`.

    Args:
        field: field of study, such as "Computer Science".
        as_published: search as the code of CiteME's authors, which does not replace hits that it leaves
            out, and reads only PDFs that Semantic Scholar lists.
    """

    name, service = "semantic-scholar", "Semantic Scholar"

    def __init__(
        self,
        api: str = API,
        *,
        per_second: float | None = 1.0,
        tries: int = 6,
        field: str | None = None,
        as_published: bool = False,
        **transfer: Any,
    ) -> None:
        key = os.environ.get(KEY)
        headers = {"x-api-key": key} if key else {}
        super().__init__(api, headers, per_second=per_second, tries=tries, **transfer)
        # Other servers do not get the key.
        self._pdfs = Client(per_second=per_second, tries=min(tries, 3), **transfer)
        self.field, self.as_published = field, as_published
        self._filter = {"fieldsOfStudy": field} if field else {}

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; further pages replace papers out of scope."""
        if self.as_published:
            return self._as_published(query, sort, scope, limit)
        if sort == "citations":
            pool = islice(self._results(query, scope, CITATION_POOL), CITATION_POOL)
            return most_cited(filter(scope.admits, pool))[:limit]
        papers: dict[str, Paper] = {}
        for paper in filter(scope.admits, self._results(query, scope, _PAGE)):
            papers.setdefault(paper.id, paper)
            if len(papers) == limit:
                break
        return list(papers.values())

    def _as_published(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """The search of the authors' code; excerpts without a year are from 2024."""
        size = limit if sort == "relevance" else CITATION_POOL
        scope = scope if scope.until else replace(scope, until="2024")
        hits = list(islice(self._results(query, scope, size), size))
        if sort == "citations":
            hits = most_cited(hits)
        papers: list[Paper] = []
        is_checked = True
        for paper in hits[:limit]:
            # The authors remove from the list that they iterate, so the hit after a removed one stays.
            is_source = is_checked and official_match(scope.source_title, [paper.title])
            papers += [] if is_source else [paper]
            is_checked = not is_source
        return papers

    def _results(self, query: str, scope: Scope, page: int) -> Iterator[Paper]:
        # By the API's documentation hyphenated terms may find nothing.
        query = query.replace("-", " ")[:_MAX_QUERY]
        params: dict[str, Any] = {"query": query, "limit": page, "fields": _FIELDS, **self._filter}
        if scope.year:
            params["year"] = f"-{scope.year}"
        if not query.strip():
            return
        offset: int | None = 0
        while offset is not None and offset < _MAX_OFFSET:
            answer = self._client.json(f"{self.api}/paper/search", {**params, "offset": offset})
            if not isinstance(answer, dict) or ("data" not in answer and answer.get("total") != 0):
                raise self.unexpected(answer)
            hits = (paper_of(hit, not self.as_published) for hit in answer.get("data") or [])
            yield from filter(None, hits)
            following = answer.get("next")
            offset = following if isinstance(following, int) and following > offset else None

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages of papers within `scope`, from https://api.semanticscholar.org/api-docs."""
        params: dict[str, Any] = {"query": query[:_MAX_QUERY], "limit": 2 * limit, **self._filter}
        if scope.until:
            params["publicationDateOrYear"] = f":{scope.until}"
        if not query.strip():
            return []
        answer = self._client.json(f"{self.api}/snippet/search", params)
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
            raise self.unexpected(answer)
        snippets = filter(None, map(snippet_of, answer["data"]))
        return [s for s in snippets if scope.admits(s.paper)][:limit]

    def describe(self) -> dict[str, Any]:
        facts = super().describe()
        if self.field:
            facts["field"] = self.field
        if self.as_published:
            facts["as_published"] = True
        return facts


def most_cited(papers: Iterable[Paper]) -> list[Paper]:
    """The papers, the most cited first; those with equal counts in their order."""
    return sorted(papers, key=lambda p: -(p.citations or 0))


def paper_of(entry: Any, with_arxiv: bool = True) -> Paper | None:
    """Convert a hit to a paper; None if it is malformed, or has no id or title.

    `with_arxiv` gives a paper without a listed PDF the address of arXiv's.
    """
    try:
        external = entry.get("externalIds") or {}
        listed, arxiv = entry.get("openAccessPdf"), external.get("ArXiv")
        pdf = None if listed is None else listed.get("url") or ""
        if not pdf and arxiv and with_arxiv:
            pdf = f"https://arxiv.org/pdf/{arxiv}"
        ids = {f"{name}:{external[name]}" for name in ("ArXiv", "DOI") if external.get(name)}
        return Paper(
            id=entry["paperId"],
            title=entry["title"],
            abstract=entry.get("abstract"),
            year=entry.get("year"),
            date=entry.get("publicationDate"),
            citations=entry.get("citationCount"),
            authors=tuple(author.get("name") or "" for author in entry.get("authors") or []),
            ids=frozenset(name.lower() for name in ids),
            pdf=pdf,
        )
    except (AttributeError, KeyError, TypeError, ValidationError):
        return None


def snippet_of(entry: Any) -> Snippet | None:
    """Convert a match to a snippet, whose paper has the corpus id; None if it is malformed."""
    try:
        paper, snippet = entry["paper"], entry["snippet"]
        known = Paper(id=f"CorpusId:{paper['corpusId']}", title=paper["title"])
        return Snippet(paper=known, text=snippet["text"], heading=snippet.get("section") or "")
    except (AttributeError, KeyError, TypeError, ValidationError):
        return None
