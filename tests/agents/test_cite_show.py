"""Trajectories as a person reads them, and why answers are wrong."""

import json

import pytest
from cite_samples import row, write
from conversations import converse
from servers import fields

from holdfast.agents.cite_show import of_sample
from holdfast.agents.citeme import CiteMEAgent
from holdfast.agents.citeme_prompts import reply_of
from holdfast.agents.data import load
from holdfast.agents.program import CiteAgent
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.trajectory import CITING, FOUND, NAMED, NEVER, failure, turns

TITLE = "Quivering Nets: Learning to Wobble, Slowly"
INTRO = "Jelly wobbles <b>much</b>, see QuiveringNets:Learning to Wobble,slowly."
PAPERS = [
    {"id": "target", "title": TITLE, "year": 2019, "abstract": "wobble"},
    {"id": "citing", "title": "A survey of jelly", "year": 2020, "body": [["Intro", INTRO]]},
    {"id": "other", "title": "Stiff matters", "year": 2020, "body": [["Long", "stiff " * 400]]},
]


@pytest.fixture
def sample(tmp_path):
    given = row(id="w1", excerpt="Nets wobble [CITATION] <script>.", target_paper_title=TITLE)
    return load(write(tmp_path / "d.csv", [given])).samples[0]


@pytest.fixture
def search(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(paper) + "\n" for paper in PAPERS))
    return LocalSearch(path)


def dspy_form(replies, **given):
    said = [fields(*reply) if isinstance(reply, tuple) else reply for reply in replies]
    return converse(CiteAgent, said, **given)[0]


def citeme_form(replies, **given):
    said = [reply_of("because", *reply) if isinstance(reply, tuple) else reply for reply in replies]
    return converse(CiteMEAgent, said, **given)[0]


FORMS = pytest.mark.parametrize("form", [dspy_form, citeme_form], ids=["dspy", "citeme"])
JELLY, WOBBLE = ("search_relevance", "jelly stiff"), ("search_relevance", "wobble slowly")
PICK_OTHER = ("select", "other")


@FORMS
@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ([JELLY, PICK_OTHER], NEVER),
        ([WOBBLE, JELLY, PICK_OTHER], FOUND),
        ([JELLY, ("read", "citing"), PICK_OTHER], NAMED),
        ([JELLY, ("read", "other"), PICK_OTHER], NEVER),
        ([JELLY, ("read", "citing"), ("select", "citing")], CITING),
        ([WOBBLE, JELLY, ("read", "citing"), ("select", "citing")], CITING),
        ([WOBBLE, JELLY, ("read", "citing"), PICK_OTHER], FOUND),
    ],
)
def test_wrong_answers_are_told_apart(form, replies, kind, sample, search):
    record = form(replies, sample=sample, search=search)
    assert record.status == "selected"
    assert failure(record, sample) == kind


@FORMS
def test_a_trajectory_tells_reasons_actions_and_what_was_seen(form, sample, search):
    replies = [JELLY, ("read", "citing"), WOBBLE, ("select", "target")]
    unusable = ["nonsense"] if form is dspy_form else []
    record = form([*unusable, *replies], sample=sample, search=search)
    read_turn = turns(record, sample)[1]
    assert (read_turn.action, read_turn.argument, read_turn.reason) == ("read", "citing", "because")
    assert "Jelly wobbles" in read_turn.seen
    shown = of_sample(record, sample)
    assert shown.startswith("w1: correct, 4 actions")
    assert ("1 repaired" in shown) == bool(unusable)
    assert "SEARCH_RELEVANCE jelly stiff" in shown
    assert shown.count("<== the target") == 1
    assert f"answer    {TITLE}" in shown
    assert sample.excerpt in shown


def test_an_end_without_answer_shows_the_reply_that_caused_it(sample, search):
    record = citeme_form([JELLY, "never"], sample=sample, search=search)
    shown = of_sample(record, sample)
    assert "unusable reply: never" in shown
    assert "no JSON object" in shown
    assert "answer    none" in shown


def test_long_texts_are_cut_unless_all_is_asked_for(sample, search):
    record = citeme_form([JELLY, ("read", "other"), PICK_OTHER], sample=sample, search=search)
    assert "more characters: --full" in of_sample(record, sample)
    assert "more characters" not in of_sample(record, sample, full=True)
    assert of_sample(record, sample, full=True).count("stiff") >= 400
