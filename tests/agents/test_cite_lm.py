"""A language model's server: kinds of errors, its secret key, and the longest wait."""

import socket

import pytest
from conversations import SAMPLE, SEARCH
from servers import Reply, chat, completion, fields, model_at, serve

from holdfast import HoldfastError
from holdfast.agents.citeme import CiteMEAgent
from holdfast.agents.episode import Episode
from holdfast.agents.lm import describe, language_model
from holdfast.agents.program import CiteAgent
from holdfast.agents.run import attempt

REPLIES = [
    fields("search_relevance", "efficient adaptation without forgetting"),
    fields("select", "eata-2022"),
]


def sample_run(lm, repeat=0, **options):
    return attempt(CiteAgent(lm, **options), Episode(SAMPLE, SEARCH, repeat=repeat))


@pytest.mark.parametrize("agent", [CiteAgent, CiteMEAgent])
@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (
            Reply({"error": {"message": "too long", "code": "context_length_exceeded"}}, 400),
            "context",
        ),
        (Reply({"error": {"message": "exceeds the available context size"}}, 400), "context"),
        (Reply({"error": {"message": "rejected by our safety system"}}, 400), "policy"),
        (completion("", finish="content_filter"), "policy"),
        (completion(""), "bad_format"),
        (Reply({"error": {"message": "boom"}}, 500), "provider_error"),
        (Reply({"error": {"message": "slow down"}}, 429), "provider_error"),
        (Reply({"error": {"message": "what?"}}, 400), "refused"),
        (Reply({"detail": "prompt exceeds the context window"}, 400), "context"),
        (Reply({"object": "error", "message": "too many tokens", "code": 400}, 400), "context"),
        (Reply({"error": "`inputs` tokens + `max_new_tokens` must be <= 9"}, 422), "context"),
        (Reply({"detail": [{"msg": "the input is not text"}]}, 422), "refused"),
        (Reply("<html>gateway</html>", 200), "provider_error"),
        (Reply("{}", stall=2.0), "provider_error"),
    ],
    ids=[
        *("context", "llama.cpp", "policy", "filter", "empty", "500", "429", "400"),
        *("detail", "flat", "tgi", "list", "html", "stall"),
    ],
)
def test_failures_are_told_apart_and_recorded(agent, reply, status):
    with chat(lambda messages: reply) as base:
        lm = model_at(base, timeout=0.2, tries=1)
        record = attempt(agent(lm), Episode(SAMPLE, SEARCH))
    assert record.status == status
    assert (
        (record.calls[-1].reply is None)
        == bool(record.calls[-1].error)
        == (reply.status != 200 or status == "provider_error")
    )
    assert record.calls[0].new_messages[-1].content.count(SAMPLE.excerpt) == 1
    if reply.stall:
        assert "--lm-timeout" in record.detail


def test_failed_tries_are_repeated():
    answers = iter(
        [Reply("busy", 429), Reply("down", 500), REPLIES[0], Reply("down", 503), REPLIES[1]]
    )
    with chat(lambda messages: next(answers)) as base:
        record = sample_run(model_at(base, tries=3))
    assert record.status == "selected"
    assert [bool(call.reply) for call in record.calls] == [True, True]


def test_a_refused_key_and_a_server_that_is_not_there_end_the_run_in_a_sentence():
    wrong = Reply({"error": {"message": "bad key", "code": "invalid_api_key"}}, 401)
    with chat(lambda messages: wrong) as base, pytest.raises(HoldfastError, match="--model"):
        sample_run(model_at(base))
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(HoldfastError, match=r"//127\S+/v1 .*--api-base"):
        model_at(nobody)


def test_usage_is_recorded_and_the_key_is_not(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    heard = []

    def respond(method, path, query, body, headers):
        heard.append(headers["Authorization"])
        if method == "GET":
            return Reply({})
        if len(body["messages"]) > 2:
            return Reply({"error": {"message": f"you sent {headers['Authorization']}"}}, 400)
        return completion(REPLIES[0])

    with serve(respond) as base:
        record = sample_run(model_at(base))
    assert heard[1:] == ["Bearer s3cret"] * 2
    assert [call.usage.get("input_tokens") for call in record.calls] == [100, None]
    assert record.status == "refused"
    assert "s3cret" not in record.calls[-1].error
    assert "[removed]" in record.calls[-1].error


def test_servers_of_ones_own_are_sent_max_tokens_and_reasoning_models_are_not():
    bodies = []

    def respond(method, path, query, body, headers):
        bodies.append(body)
        return completion("[[ ## title ## ]]\nA title")

    with serve(respond) as base:
        for name in ("llama3.1", "openai/gpt-4o", "org/model:7b", "o3-mini", "openai/gpt-5"):
            lm = language_model(name, api_base=f"{base}/v1", temperature=None, max_tokens=17_000)
            assert sample_run(lm, commands="none").selection
            assert describe(lm)["model"] == f"openai/{name.removeprefix('openai/')}"
    bodies = [body for body in bodies if body]
    names = ["llama3.1", "gpt-4o", "org/model:7b", "o3-mini", "gpt-5"]
    assert [b["model"] for b in bodies] == names
    limits = [(b.get("max_tokens"), b.get("max_completion_tokens")) for b in bodies]
    assert limits == [(17_000, None)] * 3 + [(None, 17_000)] * 2


def test_a_reply_that_was_cut_off_says_so():
    with chat(lambda messages: completion("[[ ## reason ## ]]\nIt goes on and", "length")) as base:
        record = sample_run(model_at(base))
    assert record.detail.startswith("the reply was cut off (see --max-tokens): its fields")


@pytest.mark.parametrize("message", ["Unsupported value: 'temperature'", "max_tokens is too large"])
def test_settings_that_every_request_breaks_end_the_run(message):
    wrong = Reply({"error": {"message": message}}, 400)
    with chat(lambda messages: wrong) as base, pytest.raises(HoldfastError, match="--temperature"):
        sample_run(model_at(base))


def test_a_long_wait_that_a_server_asks_for_is_bounded_and_printed(monkeypatch, capsys):
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    long, short = ({"Retry-After": seconds} for seconds in ("3600", "7"))
    answers = iter([Reply("busy", 429, long), Reply("", 503, short), *REPLIES])
    with chat(lambda messages: next(answers)) as base:
        record = sample_run(model_at(base))
    assert record.status == "selected"
    assert [seconds for seconds in waited if seconds > 1] == [60.0, 7.0]
    (line,) = capsys.readouterr().err.splitlines()
    assert "hosted_vllm/m asks to wait 3,600 s (Retry-After); at most 60 s" in line


def test_parameters_and_schemas_reach_the_server():
    bodies = []

    def respond(method, path, query, body, headers):
        bodies.append(body)
        return completion('{"title": "A title"}')

    with serve(respond) as base:
        for options in ({}, {"structured": True, "seed": 7, "reasoning_effort": "low"}):
            lm = language_model("m", api_base=f"{base}/v1", **options)
            assert sample_run(lm, commands="none", form="json").selection.title == "A title"
            assert {name: describe(lm).get(name) for name in options} == options
    plain, enforced = [body for body in bodies if body]
    assert "response_format" not in plain
    assert enforced["response_format"]["json_schema"]["schema"]["required"] == ["title"]
    assert enforced["seed"] == 7
    assert "low" in str(enforced.get("reasoning_effort") or enforced.get("reasoning"))


@pytest.mark.parametrize(
    "marker", ["\n[[ ## completed ## ]]", " [[ ## completed ## ]]", " [[ ## compl"]
)
def test_the_end_marker_is_no_part_of_an_answer(marker):
    replies = [
        f"[[ ## title ## ]]\nA title{marker}",
        f"[[ ## title ## ]]\nA title{marker} and more",
    ]
    for reply in replies:
        with chat(lambda messages, reply=reply: reply) as base:
            assert sample_run(model_at(base), commands="none").selection.title == "A title"
