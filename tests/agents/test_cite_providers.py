"""OpenAlex, arXiv and MCP servers on loopback, made from the services' documentation; dense search."""

import contextlib
import re
import socket
import threading
import time
from html import escape
from typing import Any

import numpy as np
import pytest
from pdfs import PDF, pdf
from servers import Reply, serve

from holdfast.agents.data import MINI_CITE_CORPUS
from holdfast.agents.search.arxiv import Arxiv
from holdfast.agents.search.dense import DenseSearch
from holdfast.agents.search.openalex import OpenAlex
from holdfast.agents.search.provider import ProviderError, ReadError, Scope

QUICK = {"per_second": None, "tries": 2, "backoff": 0.0, "timeout": (5.0, 2.0)}


def work(k, **changes):
    """A work of OpenAlex with the keys that its documentation lists."""
    facts = {
        "id": f"https://openalex.org/W{k}",
        "doi": f"https://doi.org/10.1/A{k}",
        "title": f"Widget {k}",
        "display_name": f"Widget {k}",
        "publication_year": 2019,
        "publication_date": f"2019-{k % 12 + 1:02d}-03",
        "cited_by_count": k,
        "authorships": [{"author": {"id": None, "display_name": "A. Author"}}],
        "abstract_inverted_index": {"widgets": [1, 3], "All": [0], "are": [2]},
        "best_oa_location": {"pdf_url": None},
        "primary_location": {"pdf_url": f"HOST/{k}.pdf"},
    }
    return facts | changes


@contextlib.contextmanager
def openalex(works, heard):
    address: list[str] = []

    def respond(method, path, query, body, headers):
        if path.endswith(".pdf"):
            return Reply(pdf("first page"), headers=PDF)
        heard.append((query, headers))
        if query.get("api_key") == "spent":
            return Reply({"error": "Rate limit exceeded", "message": "Daily limit"}, 429)
        last = query.get("filter", "to_publication_date:9999").partition(":")[2]
        hits = [w for w in works if not w or (w.get("publication_date") or "") <= last]
        if query["sort"] == "cited_by_count:desc":
            hits.sort(key=lambda w: -(w or {}).get("cited_by_count", 0))
        size, page = int(query["per_page"]), int(query["page"])
        shown = hits[size * (page - 1) : size * page]
        text = Reply({"meta": {"count": len(hits)}, "results": shown}).body
        return Reply(text.replace(b"HOST", address[0].encode()))

    with serve(respond) as base:
        address.append(base)
        yield base


def test_openalex_is_searched_with_key_and_mail_within_the_date_limit(monkeypatch):
    monkeypatch.setenv("OPENALEX_API_KEY", "k3y")
    monkeypatch.setenv("OPENALEX_MAIL", "me@example.org")
    heard: list[Any] = []
    works = [work(k) for k in range(1, 120)] + [None, work(3), {"id": 3}, work(500, title=None)]
    works += [work(501, display_name=None), work(900, publication_date="2024-05-06")]
    with openalex(works, heard) as base:
        search = OpenAlex(base, **QUICK)
        papers = search.search(
            'widgets, "deep": (all)?', "relevance", Scope("Widget 2", "2023"), 70
        )
        assert [p.id for p in papers[:2]] == ["W1", "W3"]
        assert len({p.id for p in papers}) == 70
        (first, headers), (second, _) = heard
        assert (first["search"], first["filter"]) == (
            "widgets deep all",
            "to_publication_date:2023-12-31",
        )
        assert (first["api_key"], first["mailto"]) == ("k3y", "me@example.org")
        assert "me@example.org" in headers["User-Agent"]
        assert (first["page"], second["page"]) == ("1", "2")
        assert papers[0].abstract == "All widgets are widgets"
        assert papers[0].ids == {"doi:10.1/a1"}
        top = search.search("widgets", "citations", Scope("", "2019-06-30"), 3)
        assert heard[-1][0]["filter"] == "to_publication_date:2019-06-30"
        assert [p.citations for p in top] == sorted((p.citations or 0 for p in top), reverse=True)
        assert top[0].date <= "2019-06-30"
        assert [s.text.strip() for s in search.read(papers[0])] == ["first page"]
        with pytest.raises(ReadError, match="passages"):
            search.snippets("widgets", Scope(), 3)
        assert search.search("?!", "relevance", Scope(), 3) == []
    assert "k3y" not in str(search.describe())


def test_openalex_says_when_its_allowance_is_spent(monkeypatch):
    monkeypatch.setenv("OPENALEX_API_KEY", "spent")
    with openalex([], []) as base, pytest.raises(ProviderError, match="429"):
        OpenAlex(base, **QUICK).search("widgets", "relevance", Scope(), 3)


def entry(k, published="2019-02-03", title="Widget"):
    return (
        f"<entry><id>http://arxiv.org/abs/1902.{k:05d}v2</id><title>{escape(title)}\n  {k}</title>"
        f"<summary> About\n widgets. </summary><published>{published}T10:00:00Z</published>"
        "<author><name>A. Author</name></author>"
        f'<link title="pdf" href="http://arxiv.org/pdf/1902.{k:05d}v2" rel="related"/></entry>'
    )


@contextlib.contextmanager
def arxiv(entries, heard):
    def respond(method, path, query, body, headers):
        heard.append(query)
        start, size = int(query["start"]), int(query["max_results"])
        shown = "".join(entries[start : start + size])
        feed = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>{shown}</feed>'
        return Reply(feed, headers={"Content-Type": "application/atom+xml"})

    with serve(respond) as base:
        yield base


def test_arxiv_is_searched_by_relevance_within_the_date_limit():
    heard: list[Any] = []
    entries = [entry(k) for k in range(1, 40)] + [entry(50, "2023-12-30", "A & B")]
    with arxiv(entries, heard) as base:
        search = Arxiv(base, **QUICK)
        papers = search.search(
            "the deep-widgets of all", "relevance", Scope("Widget 2", "2023"), 35
        )
        assert len(papers) == 35
        assert (papers[0].id, papers[0].title, papers[0].date) == (
            "1902.00001",
            "Widget 1",
            "2019-02-03",
        )
        assert papers[0].pdf == "http://arxiv.org/pdf/1902.00001v2"
        assert papers[0].ids == {"arxiv:1902.00001"}
        assert "1902.00002" not in {p.id for p in papers}
        assert [q["start"] for q in heard] == ["0", "30"]
        expected = "all:deep AND all:widgets AND submittedDate:[199101010000 TO 202312312359]"
        assert heard[0]["search_query"] == expected
        search.search("widgets", "relevance", Scope("", "2023-05-06"), 3)
        assert "TO 202305062359]" in heard[-1]["search_query"]
        for use in (
            lambda: search.search("x", "citations", Scope(), 3),
            lambda: search.snippets("x", Scope(), 3),
        ):
            with pytest.raises(ReadError, match="arXiv"):
                use()
        assert search.search("the of", "relevance", Scope(), 3) == []


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            ["<entry><id>http://arxiv.org/api/errors#x</id><summary>bad id</summary></entry>"],
            "bad id",
        ),
        (["<entry>"], "unexpected"),
    ],
)
def test_errors_of_arxiv_are_errors(entries, said):
    with arxiv(entries, []) as base, pytest.raises(ProviderError, match=said):
        Arxiv(base, **QUICK).search("widgets", "relevance", Scope(), 3)


def test_dense_search_keeps_to_scope_and_order():
    def encode(entries):
        return np.stack(
            [[len(re.findall(r"\bentropy\b", f"{t} {a}".lower())), 1.0] for t, a in entries]
        )

    search = DenseSearch(MINI_CITE_CORPUS, encode, "counting")
    hits = search.search("entropy", "relevance", Scope("", "2021"), 5)
    assert "entropy" in f"{hits[0].title} {hits[0].abstract}".lower()
    assert all((p.year or 0) <= 2021 for p in hits)
    counts = [p.citations or 0 for p in search.search("entropy", "citations", Scope(), 5)]
    assert counts == sorted(counts, reverse=True)
    assert search.search(" ", "relevance", Scope(), 5) == []
    assert search.describe()["encoder"] == "counting"


@pytest.fixture
def asta():
    """A server of the real package mcp with two of Asta's tools, and what they were asked."""
    pytest.importorskip("mcp")
    import uvicorn
    from mcp.server.mcpserver import MCPServer

    server, asked = MCPServer("asta"), []
    papers = [
        {"paperId": f"p{k}", "title": f"Widget {k}", "year": 2019 + k, "citationCount": 10 - k}
        for k in range(5)
    ]

    @server.tool()
    def search_papers_by_relevance(
        keyword: str, limit: int = 10, fields: str = "title", publication_date_range: str = ""
    ) -> dict:
        asked.append((keyword, limit, publication_date_range))
        if keyword == "fail":
            raise ValueError("no such index")
        return {"data": [*papers, {"title": None}, None][: limit + 2]}

    @server.tool()
    def snippet_search(query: str, limit: int = 10, publication_date_range: str = "") -> dict:
        paper = {"corpusId": "7", "title": "Widget 7"}
        return {
            "data": [{"paper": paper, "snippet": {"text": "Widgets hold.", "section": "1"}}, {}]
        }

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(server.streamable_http_app(), port=port, log_level="error")
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}/mcp", asked
    web.should_exit = True
    thread.join(10)


def test_an_mcp_server_is_searched_within_the_date_limit(asta):
    from holdfast.agents.search.mcp_server import MCPSearch

    url, asked = asta
    search = MCPSearch(url)
    hits = search.search("widgets", "relevance", Scope("Widget 1", "2021"), 2)
    assert [p.id for p in hits] == ["p0", "p2"]
    assert asked[-1] == ("widgets", 4, ":2021")
    hits = search.search("widgets", "citations", Scope(), 2)
    assert ([p.citations for p in hits], asked[-1][1]) == ([10, 9], 100)
    (snippet,) = search.snippets("widgets", Scope(), 3)
    assert (snippet.paper.id, snippet.text) == ("CorpusId:7", "Widgets hold.")
    with pytest.raises(ProviderError, match="search_papers_by_relevance failed"):
        search.search("fail", "relevance", Scope(), 2)
    with pytest.raises(ProviderError, match="failed"):
        MCPSearch("http://127.0.0.1:9/mcp", timeout=5.0).search("x", "relevance", Scope(), 1)
