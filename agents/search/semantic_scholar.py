"""Search and reading through the Semantic Scholar Graph API.

https://api.semanticscholar.org/api-docs/graph: with an API key one request per second over all endpoints;
without a key a public rate limit, which is often exhausted.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ..data import new_file
from .client import Client
from .pdf import extract
from .provider import Paper, ProviderError, ReadError, Scope, Section, Sort

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
        cache: folder for texts of papers.
        field: field of study, such as "Computer Science".
        **transfer: further arguments of `Client`.
    """

    def __init__(
        self,
        api: str = API,
        *,
        per_second: float | None = 1.0,
        tries: int = 6,
        cache: Path | None = None,
        field: str | None = None,
        **transfer: Any,
    ) -> None:
        key = os.environ.get(KEY)
        headers = {"x-api-key": key} if key else {}
        self.api = api.rstrip("/")
        self._client = Client(headers, per_second=per_second, tries=tries, **transfer)
        self._pdfs = Client(per_second=per_second, tries=min(tries, 3), **transfer)
        self._cache, self.field = cache, field

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; raises `ProviderError`.

        Further pages replace papers out of scope. By citations, the 100 most relevant papers are sorted, as
        in CiteME.
        """
        if sort == "citations":
            pool = islice(self._results(query, scope, _CITATION_POOL), _CITATION_POOL)
            return sorted(filter(scope.admits, pool), key=lambda p: -(p.citations or 0))[:limit]
        papers: dict[str, Paper] = {}
        for paper in filter(scope.admits, self._results(query, scope, _PAGE)):
            papers.setdefault(paper.id, paper)
            if len(papers) == limit:
                break
        return list(papers.values())

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
            yield from filter(None, map(_paper_of, answer.get("data") or []))
            following = answer.get("next")
            offset = following if isinstance(following, int) and following > offset else None

    def read(self, paper: Paper) -> list[Section]:
        """The pages of the paper's open-access PDF, from the cache if possible; raises `ReadError`."""
        url = paper.pdf
        if not url:
            raise ReadError("no open-access PDF of this paper is known.")
        name = hashlib.sha256(url.encode()).hexdigest()
        cached = self._cache / f"{name}.json" if self._cache else None
        if cached and cached.exists():
            pages = json.loads(cached.read_text(encoding="utf-8"))["pages"]
            return [Section(heading, text) for heading, text in pages]
        sections = extract(self._pdfs.pdf(url))
        if cached:
            entry = {"url": url, "pages": [[s.heading, s.text] for s in sections]}
            with new_file(cached, "--cache") as partial:
                partial.write_text(json.dumps(entry), encoding="utf-8")
        return sections

    def describe(self) -> dict[str, Any]:
        field = {"field": self.field} if self.field else {}
        return {"name": "semantic-scholar", "api": self.api, **field}


def _paper_of(entry: dict[str, Any] | None) -> Paper | None:
    """Convert a hit to a paper; None without id or title, as any field may be null."""
    if not entry or not entry.get("paperId") or not entry.get("title"):
        return None
    external = entry.get("externalIds") or {}
    ids = {f"{name.lower()}:{external[name]}" for name in ("ArXiv", "DOI") if external.get(name)}
    pdf = (entry.get("openAccessPdf") or {}).get("url") or ""
    if not pdf and external.get("ArXiv"):
        pdf = f"https://arxiv.org/pdf/{external['ArXiv']}"
    return Paper(
        id=entry["paperId"],
        title=entry["title"],
        abstract=entry.get("abstract"),
        year=entry.get("year"),
        date=entry.get("publicationDate"),
        citations=entry.get("citationCount"),
        authors=tuple(a.get("name") or "" for a in entry.get("authors") or []),
        ids=frozenset(i.lower() for i in ids),
        pdf=pdf,
    )
