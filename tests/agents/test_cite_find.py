"""The views that CiteGuard adds: words in a text, and what stands around an excerpt."""

import pytest
from conversations import MINI, SAMPLE, SEARCH, converse
from servers import fields

from holdfast import HoldfastError
from holdfast.agents.citeagent.citeme_prompts import prompt
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.episode import Episode
from holdfast.agents.passages import passages, surroundings
from holdfast.agents.protocol import Section
from holdfast.agents.report.show import text
from holdfast.agents.score import judge


def test_words_are_found_as_they_stand_or_nearly():
    body = (
        "x " * 500
        + "The Fisher\ninformation is kept. "
        + "y " * 500
        + "Fisher again. "
        + "z " * 400
    )
    (first,) = passages(body, "fisher INFORMATION")
    assert "The Fisher information is kept." in first
    assert len(first) < 700
    assert len(passages(body, "fisher")) == 2
    assert "again" in passages(body, "again Fisher nowhere")[0]
    assert passages(body, "nothing of this") == passages(body, "  ") == []
    assert len(passages("word " * 4000, "word")) == 5


def test_surroundings_hold_neither_the_answer_nor_the_references():
    excerpt = "This sentence on wobbling nets is long enough to be found [CITATION] in its paper."
    before, after = "Before it, Quivering-Nets: learning to WOBBLE was named. ", " After it, more."
    cited = excerpt.replace("[CITATION]", "[7]")
    sections = [
        Section(
            "1", before + cited + after + "\nReferences\n[7] Quivering nets: Learning to wobble"
        ),
        Section("References", "Quivering nets: Learning to wobble, again"),
    ]
    around = surroundings(sections, excerpt, ["Quivering Nets: Learning to Wobble"])
    assert around.startswith("Before it, [CITATION] was named.")
    assert around.endswith("After it, more.")
    assert "wobble" not in around.lower().replace("wobbling", "")
    assert surroundings(sections, "Something else entirely [CITATION].", []) == ""


def run_agent(replies, sample=SAMPLE):
    """Its record, and the last message of every prompt."""
    record, sent = converse(lambda lm: LMAgent(CiteAgent("search+read+find"), lm), replies, sample)
    return record, [messages[-1]["content"] for messages in sent]


def test_an_agent_finds_words_and_asks_for_context():
    record, sent = run_agent(
        [
            fields("ask_for_more_context", ""),
            fields("search_relevance", "efficient adaptation without forgetting"),
            fields("find_in_text", "eata-2022 Fisher"),
            fields("find_in_text", "no-such-id Fisher"),
            fields("select", "eata-2022"),
        ]
    )
    assert judge(record, SAMPLE).outcome == "correct"
    actions = [e.action for e in record.events if e.kind == "action"]
    assert actions == [
        "ask_for_more_context",
        "search_relevance",
        "find_in_text",
        "find_in_text",
        "select",
    ]
    begins = SAMPLE.excerpt.split("[CITATION]")[0].strip()[:60]
    assert begins in sent[1].split("observation")[1]
    assert "Fisher" in sent[3]
    assert "no-such-id" in sent[4]
    shown = text(record, SAMPLE)
    assert "FIND_IN_TEXT eata-2022 Fisher" in shown


def test_context_is_there_for_every_sample_and_never_names_the_target():
    for sample in MINI.samples:
        episode = Episode(sample, SEARCH)
        around = episode.context()
        assert episode.events[-1].ok, sample.id
        for title in sample.titles:
            assert title.lower() not in around.lower()


def test_a_source_that_cannot_be_had_is_told():
    from dataclasses import replace

    episode = Episode(replace(SAMPLE, source_title="A paper that is nowhere"), SEARCH)
    assert "the paper that the excerpt is from" in episode.context()
    assert episode.events[-1].ok is False


def test_the_papers_own_form_has_no_such_commands():
    with pytest.raises(HoldfastError, match="--prompt dspy"):
        prompt("search+read+find", False)
