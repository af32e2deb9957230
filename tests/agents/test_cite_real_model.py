"""A real, very small language model's replies, recorded once, are judged as they were live."""

from collections import Counter
from pathlib import Path

import pytest

from holdfast.agents.cite import main
from holdfast.agents.results import read

# SmolLM2-135M-Instruct (Q4_1), 2026-11-22; docs/citeme-small-models.md says how it was recorded.
TAPE = Path(__file__).parent.parent / "golden" / "citeme" / "smollm2-135m.jsonl"
OPTIONS = "--results 2 --max-actions 3 --read-chars 600 --max-tokens 96 --workers 1"


@pytest.mark.parametrize(
    ("prompt", "commands", "limit", "ended"),
    [
        ("dspy", "none", 6, {"bad_format": 6}),
        ("plain", "none", 6, {"guessed": 6}),
        ("json", "none", 6, {"guessed": 5, "bad_format": 1}),
        ("json --structured", "none", 6, {"guessed": 6}),
        ("dspy", "search", 3, {"bad_format": 3}),
        ("plain", "search", 3, {"bad_format": 3}),
        ("json", "search+read", 3, {"bad_format": 3}),
        ("json", "none --demonstration", 6, {"guessed": 6}),
        ("json --structured", "none --demonstration", 6, {"guessed": 6}),
        ("json --structured", "search", 1, {"unknown_id": 1}),
        ("json --structured", "search --demonstration", 1, {"unknown_id": 1}),
        ("json --structured", "search+read", 1, {"unknown_id": 1}),
        ("json --structured", "search+read --demonstration", 1, {"unknown_id": 1}),
    ],
)
def test_what_the_model_said_ends_as_it_did_live(
    prompt, commands, limit, ended, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    out = tmp_path / "run.jsonl"
    line = f"run --model SmolLM2-135M-Instruct --prompt {prompt} --commands {commands} {OPTIONS}"
    server = "--api-base http://127.0.0.1:9/v1"  # where nobody listens
    main([*f"{line} {server} --limit {limit}".split(), "--replay", str(TAPE), "--out", str(out)])
    said = capsys.readouterr().out
    records = read(out)[1].values()
    assert Counter(r.status for r in records) == ended
    # Nothing is lost: every reply is in the record, and an end without an answer has its reason.
    for record in records:
        assert any(call.reply for call in record.calls)
        assert bool(record.detail) == (record.selection is None)
    assert ("does not follow --prompt" in said) == (set(ended) == {"bad_format"})


def test_the_recording_is_small_and_names_no_place_of_its_own():
    text = TAPE.read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    assert "/home" not in text
    assert "127.0.0.1" not in text
