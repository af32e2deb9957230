"""Trajectories as a person reads them, why answers are wrong, and pages of runs."""

import json
import re
from html.parser import HTMLParser

import pytest
from cite_samples import row, write
from conversations import in_order
from servers import fields

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.citeagent.citeme import CiteMEAgent
from holdfast.agents.citeagent.citeme_prompts import reply_of
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.data import load
from holdfast.agents.episode import Episode
from holdfast.agents.report.show import text
from holdfast.agents.results import read
from holdfast.agents.run import attempt, run
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.trajectory import CITING, FOUND, NAMED, NEVER, failure, reason_in, turns

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


def dspy_agent(replies):
    lm, _ = in_order(fields(*reply) if isinstance(reply, tuple) else reply for reply in replies)
    return LMAgent(CiteAgent(), lm)


def citeme_agent(replies):
    said = [reply_of("because", *reply) if isinstance(reply, tuple) else reply for reply in replies]
    lm, _ = in_order(said)
    return CiteMEAgent(lm, repairs=1)


FORMS = pytest.mark.parametrize("form", [dspy_agent, citeme_agent], ids=["dspy", "citeme"])
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
    record = attempt(form(replies), Episode(sample, search))
    assert record.status == "selected"
    assert failure(record, sample) == kind


@FORMS
def test_a_trajectory_tells_reasons_actions_and_what_was_seen(form, sample, search):
    replies = ["nonsense", JELLY, ("read", "citing"), WOBBLE, ("select", "target")]
    record = attempt(form(replies), Episode(sample, search))
    read_turn = turns(record, sample)[1]
    assert (read_turn.action, read_turn.argument, read_turn.reason) == ("read", "citing", "because")
    assert "Jelly wobbles" in read_turn.seen
    shown = text(record, sample)
    assert shown.startswith("w1: correct, 4 actions")
    assert "1 repaired" in shown
    assert "SEARCH_RELEVANCE jelly stiff" in shown
    assert shown.count("<== the target") == 1
    assert f"answer    {TITLE}" in shown
    assert sample.excerpt in shown


def test_an_end_without_answer_shows_the_reply_that_caused_it(sample, search):
    record = attempt(citeme_agent([JELLY, "no", "never"]), Episode(sample, search))
    shown = text(record, sample)
    assert "unusable reply: never" in shown
    assert "no JSON object" in shown
    assert "answer    none" in shown


def test_long_texts_are_cut_unless_all_is_asked_for(sample, search):
    record = attempt(citeme_agent([JELLY, ("read", "other"), PICK_OTHER]), Episode(sample, search))
    assert "more characters: --full" in text(record, sample)
    assert "more characters" not in text(record, sample, full=True)
    assert len(re.findall("stiff", text(record, sample, full=True))) >= 400


class Links(HTMLParser):
    """What a page links to, what it can be linked to, and the tags it has."""

    def __init__(self, page):
        super().__init__()
        self.wanted, self.ids, self.tags, self.open = set(), [], set(), []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        given = dict(attributes)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.wanted.add(given["href"].removeprefix("#"))
        if tag not in ("meta", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_every_number_of_a_page_leads_to_its_samples_and_they_to_their_steps(tmp_path, capsys):
    runs = [str(tmp_path / f"{name}.jsonl") for name in ("rules", "bm25")]
    for name, out in zip(("rules", "bm25"), runs, strict=True):
        assert main(["run", "--agent", name, "--limit", "12", "--out", out]) == 0
    pages = []
    for name in ("a.html", "b.html"):
        path = tmp_path / "pages" / name
        assert main(["score", *runs, "--html", str(path), "--cutoff", "2024"]) == 0
        pages.append(path.read_text())
    assert pages[0] == pages[1]
    links = Links(pages[0])
    assert links.wanted <= set(links.ids)
    assert len(links.ids) == len(set(links.ids))
    assert not links.open
    assert {"r0-outcome-correct", "r1-outcome-correct", "r0-mini-01-0"} <= links.wanted
    assert not re.search(r"https?://|@import|src=", pages[0])
    assert read(runs[0])[1]["mini-01", 0].selection.title in pages[0]
    told = capsys.readouterr().out
    assert re.search(r"correct +\d+ +\d+\.\d %", told)  # side by side


def test_one_sample_as_a_page_and_foreign_text_is_only_text(tmp_path, sample, search, capsys):
    hostile = reply_of('</p><img src="x">', "search_relevance", "jelly stiff")
    agent = citeme_agent([hostile, ("read", "citing"), ("select", "citing")])
    data, out, page = (tmp_path / name for name in ("d.csv", "run.jsonl", "one.html"))
    run(load(data), agent, search, out)
    options = ["show", str(out), "w1", "--data", str(data)]
    assert main([*options, "--html", str(page)]) == 0
    links = Links(page.read_text())
    assert "img" not in links.tags
    assert not links.open
    assert "&lt;script&gt;" in page.read_text()
    assert "Jelly wobbles &lt;b&gt;much" in page.read_text()
    assert CITING in page.read_text()
    capsys.readouterr()
    assert main(options) == 0
    assert CITING in capsys.readouterr().out
    for sample_id, repeat in (("w2", "0"), ("w1", "3")):
        with pytest.raises(HoldfastError, match=f"{sample_id}.* w1"):
            main(["show", str(out), sample_id, "--repeat", repeat, "--data", str(data)])


def test_agents_without_a_model_note_what_they_read(tmp_path):
    out = tmp_path / "rules.jsonl"
    assert main(["run", "--agent", "rules", "--limit", "1", "--out", str(out)]) == 0
    record = read(out)[1]["mini-01", 0]
    sample = load("mini-cite").select("test").samples[0]
    taken = [turn for turn in turns(record, sample) if turn.action == "read"]
    assert len(taken) == 3
    assert all(turn.seen for turn in taken)


def test_the_reason_of_a_reply_that_was_cut_off_is_shown_too():
    whole = '{"reason": "It \\"fits\\".", "action": "select", "argument": "a"}'
    for reply in (whole, whole[:-12], f"Well:\n```json\n{whole}\n```"):
        assert reason_in(reply) == 'It "fits".'
    assert reason_in('{"reason": "It fi') == reason_in('{"reason": 3}') == ""
