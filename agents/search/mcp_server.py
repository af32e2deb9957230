"""Search through an MCP server that has the tools of Ai2's Asta.

https://allenai.org/asta/resources/mcp: `search_papers_by_relevance` and `snippet_search` over Semantic
Scholar's corpus, by streamable HTTP, with the key in ASTA_API_KEY as header x-api-key.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

from ... import HoldfastError
from .client import OnlineSearch
from .provider import Paper, ProviderError, Scope, Snippet, Sort
from .semantic_scholar import CITATION_POOL, most_cited, paper_of, snippet_of

URL = "https://asta-tools.allen.ai/mcp/v1"
KEY = "ASTA_API_KEY"
_FIELDS = "title,abstract,year,publicationDate,authors,citationCount,externalIds,openAccessPdf"
_SEARCH, _SNIPPETS = "search_papers_by_relevance", "snippet_search"


class MCPSearch(OnlineSearch):
    """The search provider; `timeout` is in seconds per call of a tool.

    Raises `HoldfastError` if the package mcp is not installed.
    """

    name = "mcp"

    def __init__(self, url: str = URL, timeout: float = 60.0, **transfer: Any) -> None:
        try:
            import mcp  # noqa: F401
        except ImportError as error:
            raise HoldfastError(f"{error}. Run: pip install 'holdfast[mcp]'.") from None
        super().__init__(url, per_second=1.0, **transfer)
        self.url, self.timeout = url, timeout

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; by citations, the 100 most relevant are sorted."""
        size = CITATION_POOL if sort == "citations" else 2 * limit
        arguments = {"keyword": query, "limit": size, "fields": _FIELDS}
        entries = self._call(_SEARCH, {**arguments, **_dates(scope)})
        papers = [paper for paper in map(paper_of, entries) if paper and scope.admits(paper)]
        return (most_cited(papers) if sort == "citations" else papers)[:limit]

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages of papers within `scope`."""
        entries = self._call(_SNIPPETS, {"query": query, "limit": 2 * limit, **_dates(scope)})
        snippets = (snippet_of(entry) for entry in entries)
        return [s for s in snippets if s and scope.admits(s.paper)][:limit]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "url": self.url}

    def _call(self, tool: str, arguments: dict[str, Any]) -> list[Any]:
        """The entries that a tool returns; raises `ProviderError`."""
        try:
            result = asyncio.run(self._ask(tool, arguments))
        except Exception as error:  # of anyio, httpx and mcp, often in groups
            why = _first(error)
            raise ProviderError(f"{self.url}: {tool} failed ({why})") from None
        texts = [content.text for content in result.content if content.type == "text"]
        if result.is_error:
            raise ProviderError(f"{self.url}: {tool} failed ({' '.join(texts)[:200]})")
        try:
            values = [result.structured_content] if result.structured_content else []
            return list(_entries(values or [json.loads(text) for text in texts]))
        except ValueError:
            raise ProviderError(f"{self.url}: {tool}: not JSON: {texts!r:.200}") from None

    async def _ask(self, tool: str, arguments: dict[str, Any]) -> Any:
        from mcp.client import Client as MCPClient
        from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

        key = os.environ.get(KEY)
        async with create_mcp_http_client(headers={"x-api-key": key} if key else None) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with MCPClient(transport, read_timeout_seconds=self.timeout) as client:
                return await client.call_tool(tool, arguments)


def _first(error: BaseException) -> str:
    """The first error of a group in words."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return f"{type(error).__name__}: {error}"[:200]


def _dates(scope: Scope) -> dict[str, str]:
    """The date limit, as the tools' argument."""
    return {"publication_date_range": f":{scope.until}"} if scope.until else {}


def _entries(values: list[Any]) -> Iterator[Any]:
    """The entries of answers, which are a list, an entry, or a mapping that contains them."""
    for value in values:
        while isinstance(value, dict) and (inner := value.get("result", value.get("data"))):
            value = inner
        yield from value if isinstance(value, list) else [value] if value else []
