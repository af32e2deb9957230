"""The search in a corpus on this machine: scope, order, dates, what is read."""

import pytest

from holdfast import HoldfastError
from holdfast.agents.data import MINI_CITE_CORPUS
from holdfast.agents.passages import excerpt
from holdfast.agents.protocol import Paper, Scope, Section
from holdfast.agents.search.local import LocalSearch

FULL = Scope()


def test_search_keeps_to_scope_limit_and_order():
    search = LocalSearch(MINI_CITE_CORPUS)
    hits = search.search("entropy minimization test-time adaptation", "relevance", FULL, 10)
    assert len(hits) == 10
    assert hits[0].id == "tent-2021"
    scoped = search.search(
        "entropy minimization test-time adaptation", "relevance", Scope(hits[0].title, "2021"), 10
    )
    assert len(scoped) == 10
    assert all((p.year or 0) <= 2021 and p.id != "tent-2021" for p in scoped)
    cited = search.search("entropy minimization test-time adaptation", "citations", FULL, 10)
    counts = [p.citations or 0 for p in cited]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("query", ['"', "NEAR(", "a AND OR *", "title:x", "", "的", "' --", "^x"])
def test_no_query_text_is_read_as_grammar(query):
    LocalSearch(MINI_CITE_CORPUS).search(query, "relevance", FULL, 5)


def test_dates_are_compared_in_full_where_both_are_known():
    old, new = Paper("a", "A", date="2023-01-02"), Paper("b", "B", date="2023-11-02")
    assert [Scope("", "2023-06-01").admits(p) for p in (old, new)] == [True, False]
    assert [Scope("", "2023").admits(p) for p in (old, new)] == [True, True]
    assert [Scope("", "2022").admits(p) for p in (old, new)] == [False, False]
    assert Scope("", "2023-06-01").admits(Paper("c", "C", year=2023))
    assert Scope("", "2020").admits(Paper("d", "D"))


def test_broken_corpus_lines_are_named(tmp_path):
    path = tmp_path / "c.jsonl"
    for lines, said in [
        ('{"id": 1}\n', "line 1"),
        ("", "empty"),
        ('{"id":"a","title":"x"}\n' * 2, "line 2"),
    ]:
        path.write_text(lines)
        with pytest.raises(HoldfastError, match=said):
            LocalSearch(path)


def test_reading_shows_parts_and_what_was_cut():
    paper = [Section(f"page {k}", "x" * 100) for k in range(1, 6)]
    assert "within section 2 of 5" in excerpt(paper, "", 200)
    assert excerpt(paper, "4-5", 10_000).startswith("## 4. page 4")
    assert "(Sections 4 to 5 of 5.)" in excerpt(paper, "pages 4-5", 10_000)
    assert excerpt(paper, "page 3", 10_000).startswith("## 3. page 3")
    assert excerpt(paper, "99", 10_000).startswith("## 1. page 1")
