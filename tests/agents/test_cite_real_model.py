"""Replies of real, small language models, recorded once, are judged as they were live."""

import json
from collections import Counter, defaultdict

import pytest
from common import GOLDEN
from servers import Reply, completion, serve

from holdfast.agents.cite import main
from holdfast.agents.records import read

# SmolLM2-135M-Instruct (Q4_1), 2026-11-22; docs/citeme-small-models.md says how it was recorded.
TAPE = GOLDEN / "citeme" / "smollm2-135m.jsonl"
OPTIONS = "--results 2 --max-actions 3 --read-chars 600 --max-tokens 96 --workers 1"


def key_of(messages, structured):
    return json.dumps(messages, sort_keys=True), structured


def recorded(structured):
    """A server that gives the recorded replies, those to a schema if `structured`."""
    replies = defaultdict(list)
    for line in TAPE.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        request = entry["request"]
        key = key_of(request["messages"], "response_format" in request["sampling"])
        replies[key].append(entry["answer"])

    def respond(method, path, query, body, headers):
        if method == "GET":
            return Reply({})
        answers = replies[key_of(body["messages"], structured)]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return completion(answer["text"], answer["finish"])

    return serve(respond)


@pytest.mark.parametrize(
    ("prompt", "structured", "commands", "limit", "ended"),
    [
        ("dspy", False, "none", 6, {"bad_format": 6}),
        ("json", False, "none", 6, {"guessed": 5, "bad_format": 1}),
        ("json", True, "none", 6, {"guessed": 6}),
        ("dspy", False, "search", 3, {"bad_format": 3}),
        ("json", False, "search+read", 3, {"bad_format": 3}),
        ("json", False, "none --demonstration", 6, {"guessed": 6}),
        ("json", True, "search", 1, {"unknown_id": 1}),
        ("json", True, "search --demonstration", 1, {"unknown_id": 1}),
        ("json", True, "search+read", 1, {"unknown_id": 1}),
        ("json", True, "search+read --demonstration", 1, {"unknown_id": 1}),
    ],
)
def test_what_the_model_said_ends_as_it_did_live(
    prompt, structured, commands, limit, ended, tmp_path, capsys
):
    out = tmp_path / "run.jsonl"
    line = f"run --model SmolLM2-135M-Instruct --prompt {prompt} --commands {commands} {OPTIONS}"
    with recorded(structured) as base:
        main([*f"{line} --api-base {base}/v1 --limit {limit}".split(), "--out", str(out)])
    said = capsys.readouterr().out
    records = read(out)[1].values()
    assert Counter(r.status for r in records) == ended
    # Nothing is lost: every reply is in the record, and an end without an answer has its reason.
    for record in records:
        assert any(call.reply for call in record.calls)
        assert bool(record.detail) == (record.selection is None)
    assert ("does not follow --prompt" in said) == (set(ended) == {"bad_format"})


def sample_lines(path):
    return sorted(line for line in path.read_bytes().splitlines() if b'"type":"sample"' in line)


@pytest.mark.parametrize(
    ("name", "model", "port", "options"),
    [
        (
            "qwen2.5-coder-1.5b-none-citeme",
            "Qwen2.5-Coder-1.5B-Instruct",
            8912,
            "--commands none",
        ),
        (
            "qwen2.5-coder-1.5b-search-read-citeme",
            "openai/Qwen2.5-Coder-1.5B",
            8902,
            "--commands search+read --results 3 --max-actions 5 --read-chars 1000",
        ),
    ],
)
def test_a_whole_run_of_a_real_model_is_replayed_from_its_world(
    name, model, port, options, tmp_path, capsys
):
    kept, world = (GOLDEN / "citeme" / f"{name}{end}.jsonl" for end in ("", ".world"))
    out = tmp_path / "run.jsonl"
    line = f"run --model {model} --api-base http://127.0.0.1:{port}/v1 {options}"
    line += f" --prompt citeme --max-tokens 96 --replay {world} --out {out}"
    # No server answers at that address.
    assert main(line.split()) == 0
    assert "no request was sent" in capsys.readouterr().out
    assert sample_lines(out) == sample_lines(kept)
    assert len(sample_lines(out)) == 43
