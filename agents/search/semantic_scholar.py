"""Search and reading through the Semantic Scholar Graph API.

https://api.semanticscholar.org/api-docs/graph: with an API key one request per second over all endpoints;
without a key a public rate limit, which is often exhausted.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import ValidationError

from ..matching import official_match
from .client import Client
from .provider import Paper, ProviderError, Scope, Section, Snippet, Sort

API = "https://api.semanticscholar.org/graph/v1"
KEY = "S2_API_KEY"
_FIELDS = "title,abstract,year,publicationDate,citationCount,authors.name,externalIds,openAccessPdf"
_PAGE = 20
_CITATION_POOL = 100  # CiteME sorts the 100 most relevant papers by citations
_MAX_QUERY = 300  # characters; longer queries are refused as too long a URL
_MAX_OFFSET = 1000  # the API's limit


class SemanticScholar:
    """The search provider; errors are raised, never turned into an empty result.

    Args:
        api: the URL of the Graph API or a mirror.
        per_second: maximum requests, and downloads of PDFs, per second.
        tries: maximum tries per request.
        field: field of study, such as "Computer Science".
        as_published: search as the code of CiteME's authors, which does not replace hits that it leaves
            out, and reads only PDFs that Semantic Scholar lists.
        **transfer: further arguments of `Client`.
    """

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
        self.api = api.rstrip("/")
        self._client = Client(headers, per_second=per_second, tries=tries, **transfer)
        self._pdfs = Client(per_second=per_second, tries=min(tries, 3), **transfer)
        self.field, self.as_published = field, as_published

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; raises `ProviderError`.

        Further pages replace papers out of scope. By citations, the 100 most relevant papers are sorted, as
        in CiteME.
        """
        if self.as_published:
            return self._as_published(query, sort, scope, limit)
        if sort == "citations":
            pool = islice(self._results(query, scope, _CITATION_POOL), _CITATION_POOL)
            return sorted(filter(scope.admits, pool), key=lambda p: -(p.citations or 0))[:limit]
        papers: dict[str, Paper] = {}
        for paper in filter(scope.admits, self._results(query, scope, _PAGE)):
            papers.setdefault(paper.id, paper)
            if len(papers) == limit:
                break
        return list(papers.values())

    def _as_published(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """The search of the authors' code; excerpts without a year are from 2024."""
        size = limit if sort == "relevance" else _CITATION_POOL
        scope = scope if scope.until else replace(scope, until="2024")
        hits = list(islice(self._results(query, scope, size), size))
        if sort == "citations":
            hits.sort(key=lambda p: -(p.citations or 0))
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
        params: dict[str, Any] = {"query": query, "limit": page, "fields": _FIELDS}
        if scope.year:
            params["year"] = f"-{scope.year}"
        if self.field:
            params["fieldsOfStudy"] = self.field
        if not query.strip():
            return
        offset: int | None = 0
        while offset is not None and offset < _MAX_OFFSET:
            answer = self._client.json(f"{self.api}/paper/search", {**params, "offset": offset})
            if not isinstance(answer, dict) or ("data" not in answer and answer.get("total") != 0):
                raise ProviderError(f"Semantic Scholar gave an unexpected answer: {answer!r:.200}")
            yield from filter(
                None, (paper_of(hit, not self.as_published) for hit in answer.get("data") or [])
            )
            following = answer.get("next")
            offset = following if isinstance(following, int) and following > offset else None

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages of papers within `scope`, from https://api.semanticscholar.org/api-docs."""
        params: dict[str, Any] = {"query": query[:_MAX_QUERY], "limit": 2 * limit}
        if scope.until:
            params["publicationDateOrYear"] = f":{scope.until}"
        if self.field:
            params["fieldsOfStudy"] = self.field
        if not query.strip():
            return []
        answer = self._client.json(f"{self.api}/snippet/search", params)
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
            raise ProviderError(f"Semantic Scholar gave an unexpected answer: {answer!r:.200}")
        snippets = filter(None, map(snippet_of, answer["data"]))
        return [s for s in snippets if scope.admits(s.paper)][:limit]

    def read(self, paper: Paper) -> list[Section]:
        """The pages of the paper's open-access PDF; raises `ReadError`."""
        return self._pdfs.read(paper)

    def describe(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": "semantic-scholar", "api": self.api}
        if self.field:
            facts["field"] = self.field
        if self.as_published:
            facts["as_published"] = True
        return facts


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
