"""Semantic Scholar on loopback: pages, orders, outages, and a whole run that is recorded and replayed."""

import pytest
from pdfs import PDF, pdf
from servers import Reply, chat, fields, papers, scholar, semantic_scholar

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.protocol import ProviderError, Scope
from holdfast.agents.results import read

# ---- search ----


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
    assert hits[0].links == {}
    assert hits[1].ids == {"arxiv:2001.00001", "doi:10.1/x"}
    assert hits[1].links == {"pdf": "https://arxiv.org/pdf/2001.00001"}


@pytest.mark.parametrize(
    "wrong",
    [
        Reply({"message": "Too Many Requests", "code": "429"}, 429),
        Reply({"message": "Too Many Requests", "code": "429"}, 200),
        Reply("[]", 200),
        Reply("", 500),
        Reply("{}", stall=2.0),
    ],
    ids=["429", "429 in disguise", "no object", "500", "stall"],
)
def test_an_outage_is_never_an_empty_result(wrong):
    with scholar(papers(3), lambda path, query: wrong) as base, pytest.raises(ProviderError):
        semantic_scholar(base).search("deep", "relevance", Scope(), 10)
    with scholar([]) as base:
        assert semantic_scholar(base).search("deep", "relevance", Scope(), 10) == []


# ---- a whole live run, recorded and replayed ----


def test_recorded_run_is_replayed_without_network(tmp_path, monkeypatch):
    monkeypatch.setenv("S2_API_KEY", "s2-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "lm-secret")
    listed = papers(12)
    turns = [
        fields("search_relevance", "deep"),
        fields("read", "p3"),
        fields("search_citation_count", "deep"),
        fields("select", "p3"),
    ]
    flaky = iter([Reply("", 429), Reply("", 500)])

    def fault(path, query):
        return next(flaky, None) if path.endswith("search") else None

    tape, live, again = (str(tmp_path / name) for name in ("tape.jsonl", "a.jsonl", "b.jsonl"))
    files = {"/files/3.pdf": Reply(pdf("the body of paper three"), headers=PDF)}
    with scholar(listed, fault, files) as s2, chat(lambda m: turns[len(m) // 2 - 1]) as lm:
        listed[3]["openAccessPdf"] = {"url": f"{s2}/files/3.pdf"}
        options = f"run --limit 3 --model m --api-base {lm}/v1 --workers 1 --allow-private".split()
        options += f"--search semantic-scholar --s2-api {s2}/graph/v1 --s2-per-second 500".split()
        assert main([*options, "--record", tape, "--out", live]) == 0
    recorded = (tmp_path / "tape.jsonl").read_text()
    assert "secret" not in recorded + (tmp_path / "a.jsonl").read_text()
    assert main([*options, "--replay", tape, "--out", again]) == 0
    (_, a), (_, b) = read(live), read(again)
    for key in a:
        assert a[key].selection == b[key].selection
        kept, replayed = (
            [e.model_dump(exclude={"seconds"}) for e in r[key].events] for r in (a, b)
        )
        assert kept == replayed
    assert "the body of paper three" in a["mini-01", 0].model_dump_json()
    with pytest.raises(HoldfastError, match="no answer"):
        main([*options, "--demonstration", "--replay", tape, "--out", str(tmp_path / "c.jsonl")])
