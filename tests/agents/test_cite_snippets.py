"""The search of passages: over a corpus here, by Semantic Scholar's API, and as an agent's action."""

import pytest
from conversations import SAMPLE, SEARCH, converse
from servers import QUICK, Reply, fields, serve

from holdfast.agents.citeagent.actions import ACTIONS
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.passages import pieces
from holdfast.agents.protocol import ProviderError, Scope
from holdfast.agents.report import figures
from holdfast.agents.report.charts_svg import COLOURS
from holdfast.agents.report.show import text
from holdfast.agents.score import judge
from holdfast.agents.search.semantic_scholar import SemanticScholar


def test_passages_are_whole_sentences_of_the_asked_length():
    sentence = "Seven words are in each of these. "
    found = pieces(sentence * 100, most=100)
    assert len(found) == 50
    assert " ".join(found) == (sentence * 100).strip()
    assert pieces("x" * 5000) == ["x" * 5000]
    assert pieces("  ") == []


def test_a_corpus_is_searched_for_passages_within_scope():
    paper = SEARCH.papers["eata-2022"]
    words = SEARCH.read(paper)[0].text.split(".")[0]
    first = SEARCH.snippets(words, Scope(), 5)[0]
    assert first.paper == paper
    assert words in first.text
    assert first.heading == SEARCH.read(paper)[0].heading
    assert len(SEARCH.snippets("adaptation", Scope(), 3)) == 3
    assert {s.heading for s in SEARCH.snippets("adaptation", Scope(), 100)} > {"abstract"}
    for scope in (Scope(source_title=paper.title), Scope(until="2015")):
        admitted = SEARCH.snippets(words, scope, 50)
        assert admitted
        assert all(scope.admits(s.paper) for s in admitted)
        assert paper not in [s.paper for s in admitted]
    assert SEARCH.snippets('the "OR" of', Scope(), 5) == []


def test_an_agent_searches_passages_and_selects_the_paper_of_one():
    replies = [
        fields("search_text_snippet", "active samples Fisher regularizer anti-forgetting"),
        fields("search_text_snippet", "zzz"),
        fields("select", "eata-2022"),
    ]
    record, prompts = converse(lambda lm: LMAgent(CiteAgent("search+read+find"), lm), replies)
    sent = [messages[-1]["content"] for messages in prompts]
    row = judge(record, SAMPLE)
    assert row.outcome == "correct"
    assert row.found[0] == 1
    assert "id: eata-2022" in sent[1]
    assert "section: " in sent[1]
    assert "found no passage" in sent[2]
    hits = record.events[1].hits
    assert len({h.id for h in hits}) == len(hits)
    assert "SEARCH_TEXT_SNIPPET active samples" in text(record, SAMPLE)


def entry(corpus, words, section=None):
    return {
        "snippet": {
            "text": words,
            "snippetKind": "body" if section else "abstract",
            "section": section,
            "snippetOffset": {"start": 0, "end": len(words)},
        },
        "score": 0.5,
        "paper": {"corpusId": corpus, "title": f"Paper {corpus}", "authors": ["A. Author"]},
    }


def scholar(base):
    return SemanticScholar(f"{base}/graph/v1", per_second=None, retry=QUICK, field="Medicine")


def test_semantic_scholar_is_searched_for_passages():
    """Two requests: the passages, and what the search of papers would say of their papers."""
    asked = []
    passages = [
        entry("1", "of the source"),
        entry("2", "too new", "Method"),
        entry("3", "wanted", "Results"),
        entry("3", "wanted too"),
        entry("4", "unknown there"),
        entry("5", "beyond the limit"),
    ]
    titles = {"1": "The source", "2": "Later", "3": "Target", "5": "Another"}
    dates = {"2": "2023-06-01"}

    def respond(method, path, query, body, headers):
        asked.append((method, path, query, body))
        if path.endswith("/snippet/search"):
            return Reply({"data": passages, "retrievalVersion": "x"})
        known = []
        for name in body["ids"]:
            number = name.removeprefix("CorpusId:")
            paper = {
                "paperId": f"p{number}",
                "title": titles.get(number),
                "abstract": "An abstract.",
            }
            paper["publicationDate"] = dates.get(number, "2023-05-01")
            known.append(paper if number in titles else None)
        return Reply(known)

    with serve(respond) as base:
        scope = Scope("The source", "2023-05-17")
        found = scholar(base).snippets("batch-norm statistics", scope, 2)
    assert [(s.paper.id, s.text, s.heading) for s in found] == [
        ("p3", "wanted", "Results"),
        ("p3", "wanted too", "abstract"),
    ]
    assert found[0].paper.abstract == "An abstract."
    (first, path, query, _), (second, batch, wanted, body) = asked
    assert (first, path, second, batch) == (
        "GET",
        "/graph/v1/snippet/search",
        "POST",
        "/graph/v1/paper/batch",
    )
    assert query["query"] == "batch-norm statistics"
    assert query["publicationDateOrYear"] == ":2023-05-17"
    assert query["fieldsOfStudy"] == "Medicine"
    assert body == {"ids": [f"CorpusId:{k}" for k in "12345"]}
    assert "openAccessPdf" in wanted["fields"]


def test_no_passage_is_an_answer_and_anything_else_an_error():
    answers = [{"data": []}, {"message": "nothing"}, {"data": [{"snippet": {}}]}]

    def respond(method, path, query, body, headers):
        return Reply(answers.pop(0))

    with serve(respond) as base:
        search = scholar(base)
        assert search.snippets("  ", Scope(), 5) == []
        assert search.snippets("words", Scope(), 5) == []
        for _ in range(2):
            with pytest.raises(ProviderError, match="unexpected answer"):
                search.snippets("words", Scope(), 5)
    assert answers == []


def test_pictures_have_a_colour_for_every_action():
    every = {action for actions in ACTIONS.values() for action in actions}
    assert every <= set(figures.ACTIONS)
    assert len(figures.ACTIONS) <= len(COLOURS)
