"""Search and reading: a corpus, Semantic Scholar and PDFs on loopback, and manners to servers."""

import time
from multiprocessing.pool import ThreadPool

import pytest
from pdfs import PDF, pdf
from servers import Reply, papers, scholar, semantic_scholar, serve

from holdfast import HoldfastError
from holdfast.agents.actions import act
from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.episode import Episode
from holdfast.agents.search import client
from holdfast.agents.search.client import Client
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.search.pdf import extract
from holdfast.agents.search.provider import Paper, ProviderError, ReadError, Scope
from holdfast.agents.search.recorded import RecordedSearch
from holdfast.agents.world import World

QUICK = {"tries": 3, "backoff": 0.0, "timeout": (5.0, 0.2)}
SEARCH = LocalSearch(MINI_CITE_CORPUS)
ADAPT = "entropy minimization test-time adaptation"

# ---- a corpus ----


def test_search_keeps_to_scope_limit_and_order():
    hits = SEARCH.search(ADAPT, "relevance", Scope(), 10)
    assert len(hits) == 10
    assert hits[0].id == "tent-2021"
    scoped = SEARCH.search(ADAPT, "relevance", Scope(hits[0].title, "2021"), 10)
    assert len(scoped) == 10
    assert all((p.year or 0) <= 2021 and p.id != "tent-2021" for p in scoped)
    counts = [p.citations or 0 for p in SEARCH.search(ADAPT, "citations", Scope(), 10)]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("query", ['"', "NEAR(", "a AND OR *", "title:x", "", "的", "' --", "^x"])
def test_no_query_text_is_read_as_grammar(query):
    SEARCH.search(query, "relevance", Scope(), 5)


def test_dates_are_compared_in_full_where_both_are_known():
    old, new = (Paper(id="a", title="A", date=f"2023-{month}-02") for month in ("01", "11"))
    assert [Scope("", "2023-06-01").admits(p) for p in (old, new)] == [True, False]
    assert [Scope("", "2023").admits(p) for p in (old, new)] == [True, True]
    assert [Scope("", "2022").admits(p) for p in (old, new)] == [False, False]
    assert Scope("", "2023-06-01").admits(Paper(id="c", title="C", year=2023))
    assert Scope("", "2020").admits(Paper(id="d", title="D"))


def test_broken_corpus_lines_are_named(tmp_path):
    path = tmp_path / "c.jsonl"
    for lines, said in [
        ('{"id": 1}\n', "line 1"),
        ("", "empty"),
        ('{"id":"a","title":"x"}\n' * 2, "line 2"),
        ('{"id":"a","title":"x","body":[["one"]]}\n', "line 1"),
    ]:
        path.write_text(lines)
        with pytest.raises(HoldfastError, match=said):
            LocalSearch(path)


# ---- Semantic Scholar ----


def test_further_pages_are_fetched_where_results_are_left_out():
    listed = papers(50)
    for k in range(17):
        listed[k]["publicationDate"] = "2023-12-01"
    listed[30]["title"] = "The Source: Deep Paper"
    seen = []

    def fault(path, query):
        seen.append(query)

    with scholar(listed, fault) as base:
        search = semantic_scholar(base)
        hits = search.search(
            "deep-paper", "relevance", Scope("The source: deep paper", "2023-06-30"), 20
        )
    assert [p.id for p in hits] == [f"p{k}" for k in range(17, 38) if k != 30]
    assert [q["offset"] for q in seen] == ["0", "20"]
    assert seen[0]["query"] == "deep paper"  # hyphens confuse the API
    assert seen[0]["year"] == "-2023"  # up to, not only


def test_citation_order_sorts_the_hundred_most_relevant_and_takes_null_counts():
    listed = papers(120)
    listed[7]["citationCount"] = None
    with scholar(listed) as base:
        hits = semantic_scholar(base).search("deep", "citations", Scope(), 10)
    assert [p.id for p in hits] == [f"p{k}" for k in range(99, 89, -1)]


def test_null_fields_are_no_errors():
    optional = "abstract year publicationDate citationCount authors externalIds openAccessPdf"
    nothing = dict.fromkeys(optional.split())
    known = {"externalIds": {"ArXiv": "2001.00001", "DOI": "10.1/X"}}
    listed = [
        None,
        {"paperId": "a", "title": "deep a", **nothing},
        {"paperId": None, "title": "deep b"},
        {"paperId": "c", "title": None},
        {"paperId": "d", "title": "deep d", "openAccessPdf": {"url": "", "status": None}, **known},
    ]
    with scholar(listed) as base:
        # `year` is null, so the server's own filter is left alone.
        hits = semantic_scholar(base).search("deep", "relevance", Scope(), 10)
    assert [p.id for p in hits] == ["a", "d"]
    assert hits[0].pdf is None
    assert hits[1].ids == {"arxiv:2001.00001", "doi:10.1/x"}
    assert hits[1].pdf == "https://arxiv.org/pdf/2001.00001"


def test_malformed_hits_are_skipped():
    wrong = [
        {"year": "2019"},
        {"citationCount": 1.5},
        {"publicationDate": ""},
        {"openAccessPdf": "https://example.org/x.pdf"},
        {"authors": ["A. Author"]},
        {"paperId": 17},
    ]
    listed = [hit | changes for hit, changes in zip(papers(len(wrong)), wrong, strict=True)]
    with scholar([*listed, {"paperId": "last", "title": "deep last"}]) as base:
        hits = semantic_scholar(base).search("deep", "relevance", Scope(), 10)
    assert [p.id for p in hits] == ["last"]


def test_passages_are_searched_within_the_date_limit():
    asked = []

    def match(number, title):
        paper = {"corpusId": number, "title": title}
        return {"paper": paper, "snippet": {"text": f"{title} hold.", "section": "1"}, "score": 1}

    def fault(path, query):
        if path != "/graph/v1/snippet/search":
            return None
        asked.append(query)
        entries = [match(7, "Widgets"), match(8, "The source"), {"paper": {}}, match(9, "Bolts")]
        return Reply({"data": entries, "retrievalVersion": "x"})

    with scholar([], fault) as base:
        scope = Scope("The source", "2023-06-30")
        passages = semantic_scholar(base, field="Computer Science").snippets("widgets", scope, 5)
        assert semantic_scholar(base).snippets(" ", scope, 5) == []
    assert [(s.paper.id, s.text, s.heading) for s in passages] == [
        ("CorpusId:7", "Widgets hold.", "1"),
        ("CorpusId:9", "Bolts hold.", "1"),
    ]
    (query,) = asked
    assert (query["query"], query["publicationDateOrYear"]) == ("widgets", ":2023-06-30")
    assert (query["limit"], query["fieldsOfStudy"]) == ("10", "Computer Science")


@pytest.mark.parametrize(
    ("wrong", "tries"),
    [
        (Reply({"message": "Too Many Requests", "code": "429"}, 429), 3),
        (Reply({"message": "Too Many Requests", "code": "429"}, 200), 1),
        (Reply("[]", 200), 1),
        (Reply("<html>", 200), 1),
        (Reply("", 404), 1),
        (Reply("", 503), 3),
        (Reply("{}", stall=60.0), 3),
    ],
    ids=["429", "429 in disguise", "no object", "not JSON", "404", "503", "stall"],
)
def test_an_outage_is_repeated_and_never_an_empty_result(wrong, tries):
    calls = []

    def fault(path, query):
        calls.append(path)
        return wrong

    with scholar(papers(3), fault) as base, pytest.raises(ProviderError):
        semantic_scholar(base, **QUICK).search("deep", "relevance", Scope(), 10)
    assert len(calls) == tries
    with scholar([]) as base:
        assert semantic_scholar(base).search("deep", "relevance", Scope(), 10) == []


# ---- manners ----


def test_a_client_tries_again_waits_as_asked_and_sends_its_key(monkeypatch):
    seen = []
    monkeypatch.setenv("S2_API_KEY", "s3cret")

    def respond(method, path, query, body, headers):
        seen.append((headers["x-api-key"], time.monotonic()))
        failures = {1: Reply("busy", 429, {"Retry-After": "1"}), 2: Reply("", 500)}
        return failures.get(len(seen), Reply({"data": [], "total": 0}))

    with serve(respond) as base:
        assert semantic_scholar(base).search("deep", "relevance", Scope(), 10) == []
    assert [key for key, _ in seen] == ["s3cret"] * 3
    assert seen[1][1] - seen[0][1] >= 1.0


def test_a_refused_key_is_neither_tried_again_nor_shown_nor_sent_elsewhere():
    heard = []

    def respond(method, path, query, body, headers):
        heard.append((path, headers["x-api-key"]))
        if path == "/moved":
            return Reply("", 302, {"Location": f"{other}/elsewhere"})
        return Reply(f"you sent {headers['x-api-key']}", 403)

    with serve(respond) as base, serve(respond) as other:
        asking = Client({"x-api-key": "s3cret"}, **QUICK)
        with pytest.raises(HoldfastError, match=r"refused the API key \(status 403\)") as refused:
            asking.json(f"{base}/key")
        with pytest.raises(ProviderError, match=r"redirects to .*/elsewhere"):
            asking.json(f"{base}/moved")
    assert "s3cret" not in str(refused.value)
    assert heard == [("/key", "s3cret"), ("/moved", "s3cret")]


def test_a_client_spaces_requests_of_all_threads():
    start = time.monotonic()
    with serve(lambda *request: Reply({})) as base, ThreadPool(4) as pool:
        assert pool.map(Client(per_second=50).json, [base] * 20) == [{}] * 20
    assert time.monotonic() - start >= 19 / 50


# ---- papers ----


def test_pages_are_read_once_and_then_from_the_world(tmp_path):
    calls = []

    def respond(method, path, *rest):
        calls.append(path)
        moved = Reply("", 302, {"Location": "/b.pdf"})
        return moved if path == "/a.pdf" else Reply(pdf("first words", "second page"), headers=PDF)

    with serve(respond) as base:
        search = RecordedSearch(semantic_scholar(base), World(tmp_path / "world.jsonl"))
        paper = Paper(id="a", title="A", pdf=f"{base}/a.pdf")
        first = search.read(paper)
        assert search.read(paper) == first
    assert [s.text.strip() for s in first] == ["first words", "second page"]
    assert calls == ["/a.pdf", "/b.pdf"]
    with pytest.raises(ReadError, match="no open-access PDF"):
        search.read(Paper(id="b", title="B"))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("<html>", headers={"Content-Type": "text/html"}), "type text/html"),
        (Reply("not a pdf", headers=PDF), "not a PDF"),
        (Reply("", 404), "404"),
        (Reply("", 503), "503"),
        (Reply(b"%PDF-" + b"x" * 60_000, headers=PDF), "more than 50,000 bytes"),
        (Reply(b"%PDF-", headers=PDF, stall=60.0), "ConnectionError"),
        (
            Reply(b"%PDF-x", headers={**PDF, "Content-Length": "999", "Connection": "close"}),
            "ChunkedEncodingError",
        ),
        (Reply("", 302, {"Location": "file:///etc/passwd"}), "InvalidSchema"),
        (Reply("", 302, {"Location": "/again"}), "TooManyRedirects"),
    ],
    ids=["html", "junk", "404", "503", "big", "stall", "short", "file", "loop"],
)
def test_bad_downloads_end_soon_and_say_why(reply, said, monkeypatch):
    monkeypatch.setattr(client, "MAX_PDF_BYTES", 50_000)
    with serve(lambda *request: reply) as base, pytest.raises(ReadError, match=said):
        Client(**QUICK).pdf(f"{base}/x.pdf")


@pytest.mark.parametrize(("data", "said"), [(pdf("x")[:200], "be read"), (pdf(""), "no text")])
def test_broken_pdfs_are_read_errors(data, said):
    with pytest.raises(ReadError, match=said):
        extract(data)


def test_a_long_pdf_is_read_to_its_last_page():
    sections = extract(pdf(*(f"text of page {k}" for k in range(1, 501))))
    assert len(sections) == 500
    assert sections[-1].heading == "page 500"
    assert sections[-1].text.strip() == "text of page 500"


def test_a_pdf_that_takes_too_long_is_given_up():
    with pytest.raises(ReadError, match=r"took longer than 0\.001 s"):
        extract(pdf("fine"), seconds=0.001)


def test_an_unreadable_paper_is_told_to_the_agent_and_does_not_end_the_sample():
    listed = papers(1, openAccessPdf={"url": "http://127.0.0.1:9/x.pdf"})
    with scholar(listed) as base:
        episode = Episode(load("mini-cite").samples[0], semantic_scholar(base))
        act(episode, "search_relevance", "deep")
        said = act(episode, "read", "p0")
    assert "cannot be downloaded" in said
    assert episode.events[-1].ok is False
