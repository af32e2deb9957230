"""Search and reading through the Semantic Scholar Graph API.

https://api.semanticscholar.org/api-docs/graph: with an API key one request per second over all endpoints;
without a key a public rate limit, which is often exhausted.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..data import new_file
from .client import Client
from .pdf import extract
from .provider import Paper, ProviderError, ReadError, Scope, Section, Snippet, Sort

API = "https://api.semanticscholar.org/graph/v1"
KEYS = ("S2_API_KEY", "SEMANTIC_SCHOLAR_API_KEY")
FIELDS = "title,abstract,year,publicationDate,citationCount,authors.name,externalIds,openAccessPdf"
PAGE = 20
CITATION_POOL = 100  # CiteME sorts the 100 most relevant papers by citations
MAX_QUERY = 300  # characters; longer queries are refused as too long a URL
MAX_OFFSET = 1000  # the API's limit


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
        key = next((os.environ[k] for k in KEYS if os.environ.get(k)), None)
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
        by_citations = sort == "citations"
        found: list[Paper] = []
        for paper in self._results(query, scope, CITATION_POOL if by_citations else PAGE):
            if by_citations or (scope.admits(paper) and paper not in found):
                found.append(paper)
            if len(found) == (CITATION_POOL if by_citations else limit):
                break
        if by_citations:
            found = [p for p in found if scope.admits(p)]
            found.sort(key=lambda p: -(p.citations or 0))
        return found[:limit]

    def _results(self, query: str, scope: Scope, page: int) -> Iterator[Paper]:
        # By the API's documentation hyphenated terms may find nothing.
        query = query.replace("-", " ")[:MAX_QUERY]
        params: dict[str, Any] = {"query": query, "limit": page, "fields": FIELDS}
        if scope.year:
            params["year"] = f"-{scope.year}"
        if self.field:
            params["fieldsOfStudy"] = self.field
        if not query.strip():
            return
        offset: int | None = 0
        while offset is not None and offset < MAX_OFFSET:
            answer = self._client.json(
                "GET", f"{self.api}/paper/search", {**params, "offset": offset}
            )
            if not isinstance(answer, dict) or ("data" not in answer and answer.get("total") != 0):
                raise unexpected("paper/search", answer)
            yield from filter(None, map(paper_of, answer.get("data") or []))
            following = answer.get("next")
            offset = following if isinstance(following, int) and following > offset else None

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages of titles, abstracts and bodies, by `/snippet/search`.

        It returns only corpus ids of papers, so a second request fetches their fields.
        """
        query = query[:MAX_QUERY]
        if not query.strip():
            return []
        # The source's own passages rank first, so more passages are requested than needed.
        params: dict[str, Any] = {"query": query, "limit": 2 * limit + PAGE}
        if scope.until:
            params["publicationDateOrYear"] = f":{scope.until}"
        if self.field:
            params["fieldsOfStudy"] = self.field
        answer: Any = self._client.json("GET", f"{self.api}/snippet/search", params)
        try:
            found = [
                (
                    f"CorpusId:{e['paper']['corpusId']}",
                    e["snippet"]["text"],
                    heading_of(e["snippet"]),
                )
                for e in answer["data"]
            ]
        except (LookupError, TypeError):
            raise unexpected("snippet/search", answer) from None
        ids = list(dict.fromkeys(i for i, *_ in found))
        known = zip(ids, self._batch(ids, FIELDS) if ids else [], strict=True)
        papers = {name: paper for name, entry in known if (paper := paper_of(entry))}
        snippets = [Snippet(papers[i], text, heading) for i, text, heading in found if i in papers]
        return [s for s in snippets if scope.admits(s.paper)][:limit]

    def _batch(self, ids: list[str], fields: str) -> list[Any]:
        url = f"{self.api}/paper/batch"
        answer = self._client.json("POST", url, {"fields": fields}, {"ids": ids})
        if not isinstance(answer, list) or len(answer) != len(ids):
            raise unexpected("paper/batch", answer)
        return answer

    def read(self, paper: Paper) -> list[Section]:
        """The pages of the paper's open-access PDF, from the cache if possible; raises `ReadError`."""
        url = paper.links.get("pdf")
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

    def embeddings(self, ids: Sequence[str], model: str = "specter_v2") -> dict[str, Any]:
        """{id: {"title", "vector"}} of papers that have a stored embedding, 500 per call."""
        found = {}
        for start in range(0, len(ids), 500):
            some = list(ids[start : start + 500])
            answer = self._batch(some, f"title,embedding.{model}")
            for paper_id, entry in zip(some, answer, strict=True):
                vector = ((entry or {}).get("embedding") or {}).get("vector")
                if vector:
                    found[paper_id] = {"title": entry.get("title") or "", "vector": vector}
        return found

    def describe(self) -> dict[str, Any]:
        field = {"field": self.field} if self.field else {}
        return {"name": "semantic-scholar", "api": self.api, **field}


def unexpected(what: str, answer: Any) -> ProviderError:
    return ProviderError(f"Semantic Scholar's {what} gave an unexpected answer: {answer!r:.200}")


def heading_of(snippet: dict[str, Any]) -> str:
    return str(snippet.get("section") or snippet["snippetKind"])


def paper_of(entry: dict[str, Any] | None) -> Paper | None:
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
        links={"pdf": pdf} if pdf else {},
    )
