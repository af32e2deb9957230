"""The agent in CiteME's own form, and how a run's settings differ from the paper's."""

from functools import partial

import pytest
from cite_samples import row, write
from conversations import SAMPLE, SEARCH, converse
from servers import chat, scholar

from holdfast.agents import citeme_prompts as prompts
from holdfast.agents import data
from holdfast.agents.actions import act
from holdfast.agents.cite import main
from holdfast.agents.citeme import CiteMEAgent
from holdfast.agents.data import load
from holdfast.agents.episode import Episode
from holdfast.agents.paper_settings import beside_paper, differences
from holdfast.agents.records import Header, read
from holdfast.agents.score import judge
from holdfast.agents.search.arxiv import Arxiv

SETTINGS = [(c, d) for c in ("none", "search", "search+read") for d in (False, True)]


def say(action, argument):
    return prompts.reply_of("because", action, argument)


FIND = say("search_relevance", "efficient adaptation without forgetting")
TAKE = say("select", "eata-2022")


def scripted(replies, commands="search+read", search=SEARCH):
    """Run the agent on replies given in order; return its record and the prompts it sent."""
    make = partial(CiteMEAgent, commands=commands)
    return converse(make, replies, search=search, read_chars=None)


def test_a_conversation_in_json_reads_whole_papers_and_selects():
    record, sent = scripted([FIND, say("read", "eata-2022"), TAKE])
    assert judge(record, SAMPLE)["outcome"] == "correct"
    assert [m["role"] for m in sent[-1]] == ["system", *["user", "assistant"] * 2, "user"]
    # The message and the form of results that the paper prints.
    first, results, text = (sent[-1][k]["content"] for k in (1, 3, 5))
    assert first.startswith(
        "You are now given an excerpt. Find me the paper cited in the excerpt, "
    )
    assert first.endswith(SAMPLE.excerpt)
    assert results.startswith("- Paper ID: ")
    assert "\n   Title: " in results
    assert "\n   Citation Count: " in results
    whole = [s.text for s in SEARCH.read(SEARCH.papers["eata-2022"])]
    assert all(part in text for part in whole)
    assert sent[-1][2]["content"] == FIND  # replies stay as they came


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("I do not know.", "no JSON"),
        ('{"reason" x', "lacks the reason"),
        ('{"action": {"name": "select", "paper_id": "x"}}', "lacks the reason"),
        ('{"reason": "x", "action": "select"}', "lacks the reason"),
        (say("select", "x").replace("select", "choose"), "none of the actions"),
        ('{"reason": "x", "action": {"name": "select", "query": "x"}}', "lacks its paper_id"),
    ],
    ids=["prose", "torn", "no reason", "no action", "unknown action", "wrong key"],
)
def test_a_reply_that_cannot_be_used_ends_the_sample(reply, said):
    record, sent = scripted([FIND, reply, TAKE])
    assert (record.status, len(sent)) == ("bad_format", 2)
    assert said in record.detail


def test_reading_takes_ids_of_the_last_search_and_selecting_those_of_any():
    other = say("search_citation_count", "image classification residual network")
    record, sent = scripted([FIND, other, say("read", "eata-2022"), say("select", "no-id"), TAKE])
    assert sent[3][-1]["content"].startswith("No search has shown a paper eata-2022.")
    assert "['" in sent[4][-1]["content"]
    acted = [e.action for e in record.events if e.kind == "action"]
    assert acted == ["search_relevance", "search_citation_count", "read", "select", "select"]
    assert record.status == "selected"


def test_a_search_that_the_provider_lacks_is_told_to_the_agent():
    asked = say("search_citation_count", "adaptation")
    _, sent = scripted([asked, "stop"], search=Arxiv())
    assert sent[1][-1]["content"].startswith("No search: arXiv knows no citation counts.")
    said = act(Episode(SAMPLE, Arxiv()), "search_citation_count", "adaptation")
    assert said == "No search: arXiv knows no citation counts. Search by relevance."


def test_last_action_is_announced_and_must_select():
    record, sent = scripted([FIND] * 20)
    assert record.status == "action_limit"
    assert len(sent) == 15
    last = prompts.prompt("search+read", False).last
    assert [last in p[-1]["content"] for p in sent] == [False] * 14 + [True]


def test_six_settings_have_six_prompts():
    ours = {s: prompts.prompt(*s) for s in SETTINGS}
    assert len({p.system for p in ours.values()}) == 6
    for (commands, demonstration), prompt in ours.items():
        assert ("read" in prompt.system) == (commands == "search+read"), commands
        assert ("Assistant: " in prompt.system) == (demonstration and commands != "none")
        assert (prompts.ADVICE in prompt.introduction) == (
            (commands, demonstration) == ("search+read", True)
        )


@pytest.mark.parametrize("lead_in", ["", "Based on the excerpt, it is: ", "My best guess: "])
def test_without_commands_a_guess_may_have_a_lead_in(lead_in):
    """A title with a colon is left whole."""
    title = "BERT: Pre-training of deep networks"
    record, sent = scripted([lead_in + title], "none")
    assert (record.status, record.selection.title) == ("guessed", title)
    assert len(sent[0]) == 2


def test_a_run_in_the_papers_settings_says_so_and_what_departs_from_them(tmp_path, monkeypatch):
    parts = ["train"] * 11 + ["test"] * 119
    rows = [row(id=str(k), split=part) for k, part in enumerate(parts)]
    path, out = write(tmp_path / "CiteME.csv", rows), tmp_path / "run.jsonl"
    fields, turns = [], [say("search_relevance", "things"), say("select", "p1")]
    papers = [{"paperId": "p1", "title": "things hold", "year": 2019}]

    def note_field(path, query):
        fields.append(query["fieldsOfStudy"])

    with scholar(papers, note_field) as s2, chat(lambda m: turns[len(m) // 2 - 1]) as lm:
        command = (
            f"run --data {path} --limit 1 --prompt citeme --model m --api-base {lm}/v1 "
            f"--search semantic-scholar --search-api {s2}/graph/v1 --out {out}"
        )
        assert main(command.split()) == 0
    header, dataset = read(out)[0], load(path).select("test")
    assert fields == ["Computer Science"]
    assert header.budget == {"results": 10, "max_actions": 15, "read_chars": "all"}
    assert differences(header, dataset) == ["--prompts ours instead of authors"]
    content = header.plain()
    content["agent"]["prompts"] = "authors"  # of a clone, which is not bundled
    header = Header.model_validate(content)
    assert differences(header, dataset) == []
    figures = {"n": 119, "missing": 0}
    # A file with CiteME's numbers of rows is not CiteME.
    assert "not CiteME's data" in beside_paper(header, dataset, figures, "run.jsonl")
    monkeypatch.setattr(data, "PUBLISHED_SHA256", dataset.sha256)
    beside = beside_paper(header, dataset, figures, "run.jsonl")
    assert "holdfast paper citeme --runs DATASET.csv run.jsonl" in beside
    for part, key, value, said in [
        ("agent", "format", "dspy", "--prompt dspy instead of citeme"),
        ("agent", "prompts", "ours", "--prompts ours instead of authors"),
        ("agent", "repairs", 1, "--repairs 1 instead of 0"),
        ("agent", "temperature", 0.0, "--temperature 0.0 instead of 0.95"),
        ("budget", "read_chars", 12_000, "--read-chars 12000 instead of all"),
        ("budget", "max_actions", 5, "--max-actions 5 instead of 15"),
        ("budget", "results", 4, "--results 4 instead of 10"),
        ("provider", "name", "local", "--search local instead of semantic-scholar"),
        ("provider", "field", None, "--field None instead of Computer Science"),
        ("provider", "as_published", False, "searches as published False instead of True"),
        ("budget", "date_cap", "none", "--date-cap none instead of excerpt"),
        ("agent", "max_tokens", 96, "--max-tokens 96 instead of None"),
        ("agent", "seed", 1, "--lm-option {'seed': 1} instead of {}"),
        ("agent", "demonstration", "optimised", "its demonstration is an optimised program"),
    ]:
        content = header.plain()
        content[part][key] = value
        changed = Header.model_validate(content)
        assert differences(changed, dataset) == [said]
        assert said in beside_paper(changed, dataset, figures, "run.jsonl")
