"""Search and reading through arXiv's API.

https://info.arxiv.org/help/api/user-manual.html: Atom feeds, at most one request per three seconds. It has
neither citation counts nor passages.
"""

import re
from itertools import count
from typing import Any
from xml.etree import ElementTree

from pydantic import ValidationError

from .client import OnlineSearch
from .local import words
from .provider import Paper, ProviderError, ReadError, Scope, Sort

API = "https://export.arxiv.org/api"
_ATOM = "{http://www.w3.org/2005/Atom}"
_PAGE = 30
_MAX_RESULTS = 90
_MAX_WORDS = 12  # which all must occur in a paper's record


class Arxiv(OnlineSearch):
    """The search provider, at `api` or a mirror; further arguments are those of `Client`."""

    name, service = "arxiv", "arXiv"

    def __init__(
        self, api: str = API, *, per_second: float | None = 1 / 3, **transfer: Any
    ) -> None:
        super().__init__(api, per_second=per_second, **transfer)

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; raises `ProviderError`, or `ReadError` for citations."""
        if sort == "citations":
            raise ReadError("arXiv knows no citation counts. Search by relevance.")
        terms = " AND ".join(f"all:{word}" for word in words(query)[:_MAX_WORDS])
        if scope.until and terms:
            last = scope.until.replace("-", "") if len(scope.until) == 10 else f"{scope.until}1231"
            terms += f" AND submittedDate:[199101010000 TO {last}2359]"
        papers: list[Paper] = []
        for start in count(0, _PAGE) if terms else ():
            entries = self._entries(terms, start)
            papers += filter(scope.admits, filter(None, map(_paper_of, entries)))
            if len(papers) >= limit or len(entries) < _PAGE or start + _PAGE >= _MAX_RESULTS:
                break
        return papers[:limit]

    def _entries(self, terms: str, start: int) -> list[ElementTree.Element]:
        params = {"search_query": terms, "start": start, "max_results": _PAGE}
        text = self._client.text(f"{self.api}/query", {**params, "sortBy": "relevance"})
        try:
            entries = ElementTree.fromstring(text).findall(f"{_ATOM}entry")
        except ElementTree.ParseError:
            raise self.unexpected(text) from None
        for entry in entries:
            if "/api/errors" in entry.findtext(f"{_ATOM}id", ""):
                raise ProviderError(f"arXiv: {entry.findtext(f'{_ATOM}summary', '')[:200]}")
        return entries


def _paper_of(entry: ElementTree.Element) -> Paper | None:
    """Convert an entry of the feed to a paper; None if it is malformed."""
    name = re.fullmatch(r".*/abs/(.+?)(v\d+)?", entry.findtext(f"{_ATOM}id", ""))
    title = " ".join(entry.findtext(f"{_ATOM}title", "").split())
    date = entry.findtext(f"{_ATOM}published", "")[:10]
    links = (link.attrib for link in entry.findall(f"{_ATOM}link"))
    pdfs = [link.get("href") for link in links if link.get("title") == "pdf"]
    if not name or not title:
        return None
    try:
        return Paper(
            id=name[1],
            title=title,
            abstract=" ".join(entry.findtext(f"{_ATOM}summary", "").split()) or None,
            year=int(date[:4]) if date[:4].isdigit() else None,
            date=date or None,
            authors=tuple(a.findtext(f"{_ATOM}name", "") for a in entry.findall(f"{_ATOM}author")),
            ids=frozenset([f"arxiv:{name[1]}".lower()]),
            pdf=pdfs[0] if pdfs else None,
        )
    except ValidationError:
        return None
