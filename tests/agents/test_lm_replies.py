"""What a language model's server may send, however odd, is stored, bounded and told apart."""

import json
from dataclasses import replace

import pytest
from conversations import MINI, SAMPLE, SEARCH
from servers import QUICK, Reply, chat, fields

from holdfast.agents.citeagent.actions import ARGUMENT_CHARS
from holdfast.agents.citeagent.citeme import CiteMEAgent
from holdfast.agents.citeagent.citeme_prompts import reply_of
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.episode import Episode
from holdfast.agents.lm.providers import endpoint
from holdfast.agents.lm.replies import REPLY_CHARS
from holdfast.agents.results import read
from holdfast.agents.run import attempt, run

AGENTS = {
    "dspy": (lambda lm: LMAgent(CiteAgent(), lm), fields),
    "json": (
        lambda lm: LMAgent(CiteAgent(), lm, form="json"),
        lambda action, argument: json.dumps(
            {"reason": argument, "action": action, "argument": argument}
        ),
    ),
    "citeme": (CiteMEAgent, lambda action, argument: reply_of("because", action, argument)),
}


def server(replies):
    """A chat server whose k-th answer is the k-th reply, the last one for ever."""
    left = list(replies)
    return chat(lambda messages: left.pop(0) if len(left) > 1 else left[0])


@pytest.mark.parametrize("form", AGENTS)
def test_a_lone_surrogate_in_a_reply_is_replaced_and_the_sample_goes_on(form, tmp_path):
    make, say = AGENTS[form]
    odd = json.loads('"bad \\ud83d words"')
    with server([say("search_relevance", f"forgetting {odd}"), say("select", "eata-2022")]) as base:
        agent = make(endpoint("m", api_base=f"{base}/v1", retry=QUICK))
        run(replace(MINI, samples=(SAMPLE,)), agent, SEARCH, tmp_path / "run.jsonl")
    (record,) = read(tmp_path / "run.jsonl")[1].values()
    assert (record.status, record.detail) == ("selected", "")
    assert next(a for a in record.actions if a.query).query == "forgetting bad ? words"


@pytest.mark.parametrize("form", AGENTS)
def test_megabytes_in_a_reply_do_not_fill_the_result_file(form):
    make, say = AGENTS[form]
    with server([say("search_relevance", "forgetting " * 200_000)]) as base:
        record = attempt(
            make(endpoint("m", api_base=f"{base}/v1", retry=QUICK)),
            Episode(SAMPLE, SEARCH, max_actions=2),
        )
    assert record.status in ("bad_format", "action_limit")
    call = record.events[0]
    assert (len(call.reply), call.finish) == (REPLY_CHARS, "length")
    # Twice a call: the reply, and the message of the next prompt that shows it.
    calls = sum(e.kind == "lm" for e in record.events)
    assert len(record.model_dump_json()) < 2.5 * calls * REPLY_CHARS


@pytest.mark.parametrize("form", AGENTS)
def test_a_long_argument_is_cut_to_what_a_search_takes(form):
    make, say = AGENTS[form]
    with server([say("search_relevance", "forgetting " * 9_000), say("select", "x" * 90_000)]) as b:
        record = attempt(
            make(endpoint("m", api_base=f"{b}/v1", retry=QUICK)),
            Episode(SAMPLE, SEARCH, max_actions=3),
        )
    actions = [e for e in record.events if e.kind == "action"]
    assert all(900 < len(e.query or e.paper) <= ARGUMENT_CHARS for e in actions)
    assert len(record.detail) < 2 * ARGUMENT_CHARS


def test_a_surrogate_in_an_error_is_replaced_too():
    wrong = Reply({"error": {"message": json.loads('"boom \\ud83d"')}}, 400)
    with server([wrong]) as base:
        agent = LMAgent(CiteAgent(), endpoint("m", api_base=f"{base}/v1", retry=QUICK))
        record = attempt(agent, Episode(SAMPLE, SEARCH))
    assert record.status == "provider_error"
    assert "boom ?" in record.detail
    record.detail.encode("utf-8")
