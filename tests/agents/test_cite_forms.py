"""The forms of a model's reply: DSPy's fields, JSON with and without a schema, a plain line."""

import json
import re

import pytest
from conversations import SAMPLE, SEARCH, converse
from servers import QUICK, Reply, completion, fields, serve

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.citeagent.citeme import CiteMEAgent
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.episode import Episode
from holdfast.agents.lm.plain import action_in, title_in
from holdfast.agents.lm.providers import endpoint
from holdfast.agents.results import read
from holdfast.agents.run import attempt
from holdfast.agents.score import judge

QUERY = "efficient adaptation without forgetting"
TITLE = SAMPLE.titles[0]


def in_json(action, argument):
    return json.dumps({"reason": "because", "action": action, "argument": argument})


def in_a_line(action, argument):
    return f"{action}: {argument}"


SAY = {"json": in_json, "plain": in_a_line, "dspy": fields}


def scripted(replies, form, commands="search+read", demonstration=False, **budget):
    """Run the agent on replies given in order; return its record and the prompts it sent."""
    program = CiteAgent(commands, demonstration)
    return converse(lambda lm: LMAgent(program, lm, form=form), replies, **budget)


@pytest.mark.parametrize("form", SAY)
@pytest.mark.parametrize("demonstration", [False, True])
def test_every_form_searches_reads_and_selects(form, demonstration):
    say = SAY[form]
    record, sent = scripted(
        [say("search_relevance", QUERY), say("read", "eata-2022 1"), say("select", "eata-2022")],
        form,
        demonstration=demonstration,
    )
    assert judge(record, SAMPLE).outcome == "correct"
    # Earlier turns, and those of the demonstration, are in the form that is asked for.
    said = [m["content"] for m in sent[-1] if m["role"] == "assistant"]
    assert len(said) == 2 + (4 if demonstration else 0) or demonstration
    for text in said:
        if form == "json":
            assert set(json.loads(text)) == {"reason", "action", "argument"}
        if form == "plain":
            assert action_in(text, ("search_relevance", "search_citation_count", "read", "select"))[
                1
            ]
    marked = [m for m in sent[-1] if "[[ ##" in m["content"]]
    assert bool(marked) == (form != "plain")


@pytest.mark.parametrize(
    ("form", "reply"),
    [
        ("plain", TITLE),
        ("plain", f'**Title:** "{TITLE}"\n\nThis paper proposes'),
        ("plain", f"<think>Hm. Is it\nTent?</think>\n\nThe paper cited is: {TITLE}"),
        ("plain", f'The answer is "{TITLE}" by Niu et al.'),
        ("json", json.dumps({"title": TITLE})),
        ("json", f'Here it is:\n```json\n{{"title": "{TITLE}"}}\n```'),
    ],
)
def test_a_title_is_found_in_what_models_put_around_it(form, reply):
    record, _ = scripted([reply], form, "none")
    assert (record.status, record.selection.title) == ("guessed", TITLE)


def test_titles_are_left_whole():
    for title in [
        "Tent: Fully Test-Time Adaptation",
        "A Paper on Adaptation: What Helps?",
        "Titles: A Study",
        "BERT",
    ]:
        assert title_in(title) == title


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("search_relevance: a b", ("", "search_relevance", "a b")),
        ("I look it up.\n\nsearch_relevance: a b", ("I look it up.", "search_relevance", "a b")),
        ("**Action:** search_relevance(a b)", ("", "search_relevance", "a b")),
        ("- select: `eata-2022`", ("", "select", "eata-2022")),
        ("select eata-2022", ("", "select", "eata-2022")),
        ("search_relevance: a\nObservation: x\nselect: y", ("", "search_relevance", "a")),
        ("1. Search_relevance: a b\n2. select: x", ("", "search_relevance", "a b")),
        ("Select the paper on forgetting.", ("", "", "")),
        ("I would select the paper: x", ("", "", "")),
        ("", ("", "", "")),
    ],
)
def test_an_action_is_found_in_a_line_of_its_own(reply, found):
    assert action_in(reply, ("search_relevance", "select")) == found


@pytest.mark.parametrize("form", ["json", "plain"])
def test_what_has_another_form_is_sent_back_once(form):
    say = SAY[form]
    record, sent = scripted(
        ["I do not know.", say("search_relevance", QUERY), "", say("select", "eata-2022")], form
    )
    assert record.status == "selected"
    row = judge(record, SAMPLE)
    assert (row.sent_back, row.repairs) == (2, 2)
    assert "not usable" in sent[1][-1]["content"]
    record, _ = scripted(["I do not know.", "search_relevance: ..."], form)
    row = judge(record, SAMPLE)
    assert (row.outcome, row.sent_back, row.repairs) == ("bad_format", 1, 0)


def test_an_unknown_id_at_the_end_counts_as_sent_back_but_not_as_repaired():
    record, _ = scripted(["select: x", "select: y"], "plain", max_actions=1)
    row = judge(record, SAMPLE)
    assert (row.outcome, row.sent_back, row.repairs) == ("unknown_id", 1, 0)


def bodies_of(replies, finish="stop"):
    """A chat server that keeps the bodies of requests and answers with replies in order."""
    bodies = []

    def respond(method, path, query, body, headers):
        bodies.append(body)
        return completion(replies[min(len(bodies), len(replies)) - 1], finish)

    return bodies, serve(respond)


def test_servers_of_ones_own_are_sent_max_tokens_and_reasoning_models_are_not():
    bodies, server = bodies_of([TITLE])
    with server as base:
        for model in ("llama3.1", "openai/gpt-4o", "org/model:7b", "o3-mini", "openai/gpt-5"):
            settings = {"temperature": None, "max_tokens": 17_000, "api_base": f"{base}/v1"}
            lm = endpoint(model, **settings, retry=QUICK)
            agent = LMAgent(CiteAgent("none"), lm, form="plain")
            assert attempt(agent, Episode(SAMPLE, SEARCH)).selection
            assert lm.describe()["model"] == f"openai/{model.removeprefix('openai/')}"
    assert [b["model"] for b in bodies] == [
        "llama3.1",
        "gpt-4o",
        "org/model:7b",
        "o3-mini",
        "gpt-5",
    ]
    limits = [(b.get("max_tokens"), b.get("max_completion_tokens")) for b in bodies]
    assert limits == [(17_000, None)] * 3 + [(None, 17_000)] * 2


@pytest.mark.parametrize("form", ["json", "citeme"])
def test_a_schema_goes_with_every_request_and_admits_the_actions_only(form, tmp_path):
    if form == "json":
        replies = [in_json("search_relevance", QUERY), in_json("select", "eata-2022")]
    else:
        nested = (
            {"name": "search_relevance", "query": QUERY},
            {"name": "select", "paper_id": "eata-2022"},
        )
        replies = [json.dumps({"reason": "because", "action": action}) for action in nested]
    bodies, server = bodies_of(replies)
    with server as base:
        lm = endpoint("m", api_base=f"{base}/v1", retry=QUICK)
        agent = (
            LMAgent(CiteAgent("search"), lm, form="json", structured=True)
            if form == "json"
            else CiteMEAgent(lm, "search", structured=True)
        )
        record = attempt(agent, Episode(SAMPLE, SEARCH))
    assert record.status == "selected"
    assert agent.describe()["structured"]
    assert len(bodies) == 2
    for body in bodies:
        schema = body["response_format"]["json_schema"]["schema"]
        action = schema["properties"]["action"]
        names = (
            action["enum"]
            if form == "json"
            else [kind["properties"]["name"]["enum"][0] for kind in action["anyOf"]]
        )
        assert names == ["search_relevance", "search_citation_count", "select"]
        assert (schema["additionalProperties"], "reason" in schema["required"]) == (False, True)


def test_a_server_without_schemas_is_told_by_its_option():
    wrong = Reply({"error": {"message": "unknown field: response_format"}}, 400)
    with serve(lambda *request: wrong) as base:
        lm = endpoint("m", api_base=f"{base}/v1", retry=QUICK)
        record = attempt(
            LMAgent(CiteAgent(), lm, form="json", structured=True), Episode(SAMPLE, SEARCH)
        )
    assert record.status == "provider_error"
    assert "--structured" in record.detail


def test_a_late_server_is_asked_twice_and_the_option_is_named(caplog):
    with serve(lambda *request: Reply("{}", stall=5.0)) as base:
        lm = endpoint("m", api_base=f"{base}/v1", timeout=0.1, retry=QUICK)
        record = attempt(LMAgent(CiteAgent(), lm), Episode(SAMPLE, SEARCH))
    assert record.status == "provider_error"
    assert re.search(r"0\.1 s.* 0\.2 s.*--lm-timeout", record.detail)
    assert "--lm-timeout" in caplog.text
    waits = [e.seconds for e in record.events if e.kind == "lm"]
    assert len(waits) == 2
    assert waits[1] > 0.2


def run_line(tmp_path, replies, *options):
    """The command line of a run on replies from a file."""
    script = tmp_path / "replies.json"
    script.write_text(json.dumps(replies))
    return ["run", "--model", f"scripted/{script}", "--limit", "3", "--workers", "1", *options]


def test_a_line_says_why_and_a_run_without_any_usable_reply_says_what_to_try(tmp_path, capsys):
    out = tmp_path / "run.jsonl"
    main([*run_line(tmp_path, ["Sure!\n\nAs a model I\nlast line"]), "--out", str(out)])
    said = capsys.readouterr().out
    line = next(x for x in said.splitlines() if x.startswith("[1/3]"))
    assert "bad_format" in line
    assert "fields" in line
    assert "last line" not in line
    assert "--prompt dspy" in said
    assert "--prompt plain" in said
    main(["score", str(out)])
    said = capsys.readouterr().out
    assert said.count("bad_format") == 1
    assert re.search("NO SAMPLE.*: bad_format 3; .*: 0 of 3", said)
    assert "none" not in said.partition("NO SAMPLE")[2]


def test_a_run_in_plain_lines_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "run.jsonl"
    options = ["--out", str(out), "--prompt", "plain", "--commands", "none", "--split", "train"]
    main([*run_line(tmp_path, ["Title: A Paper"]), *options])
    assert "does not follow" not in capsys.readouterr().out
    header, records = read(out)
    assert header.agent.format == "plain"
    assert {r.selection.title for r in records.values()} == {"A Paper"}


def test_a_reply_that_was_cut_off_says_so():
    _, server = bodies_of(["[[ ## reason ## ]]\nIt goes on and"], finish="length")
    with server as base:
        lm = endpoint("m", api_base=f"{base}/v1", retry=QUICK)
        record = attempt(LMAgent(CiteAgent(repairs=0), lm), Episode(SAMPLE, SEARCH))
    assert record.detail.startswith("the reply was cut off (see --max-tokens): its fields")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--structured"], "--prompt json"),
        (["--structured", "--prompt", "plain"], "--prompt json"),
        (["--structured", "--prompt", "citeme", "--commands", "none"], "not JSON"),
    ],
)
def test_a_schema_needs_json(tmp_path, options, said):
    with pytest.raises(HoldfastError, match=said):
        main([*run_line(tmp_path, ["x"]), "--out", str(tmp_path / "run.jsonl"), *options])
