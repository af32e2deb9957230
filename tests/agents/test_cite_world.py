"""A recorded world: a run is replayed without any request."""

import json
import re

import pytest
from servers import chat, fields, papers, scholar

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.records import read
from holdfast.agents.world import World

OPTIONS = "--model m --workers 4 --max-tokens 99"
N = 12


class Model:
    """Searches, reads, and selects the first hit."""

    def __init__(self):
        self.asked = 0

    def __call__(self, messages):
        self.asked += 1
        excerpt = messages[-1]["content"]
        if "papers:" in excerpt:
            return fields("read", re.findall(r"^id: (\S+)$", excerpt, re.M)[0])
        if "Nothing has been searched" in excerpt:
            words = re.findall(r"[a-z]{6,}", excerpt.partition("[CITATION]")[0])
            return fields("search_relevance", " ".join(words[-6:]) or "deep networks")
        hits = [m["content"] for m in messages if "papers:" in m["content"]]
        return fields("select", re.findall(r"^id: (\S+)$", hits[-1], re.M)[0])


def record_lines(path):
    return [line for line in path.read_bytes().splitlines() if b'"type":"sample"' in line]


def test_a_whole_run_is_replayed_byte_for_byte_without_requests(tmp_path, capsys):
    model, world = Model(), tmp_path / "world.jsonl"
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    with chat(model) as base:
        options = f"{OPTIONS} --api-base {base}/v1 --limit {N}"
        assert main(f"run {options} --world {world} --out {first}".split()) == 0
    asked = model.asked
    assert asked >= 2 * N
    raw = world.read_bytes()
    capsys.readouterr()
    # The server is gone.
    assert main(f"run {options} --replay {world} --out {again}".split()) == 0
    assert "no request was sent, and nothing was spent" in capsys.readouterr().out
    assert sorted(record_lines(again)) == sorted(record_lines(first))
    assert len(record_lines(again)) == N
    assert model.asked == asked
    assert world.read_bytes() == raw
    facts = read(again)[0].model_extra["replay"]
    assert facts["world"] == "world.jsonl"
    main(f"score {again}".split())
    assert "without requests" in capsys.readouterr().out


def test_what_a_world_lacks_stops_a_replay(tmp_path):
    model, world = Model(), tmp_path / "world.jsonl"
    with chat(model) as base:
        options = f"{OPTIONS} --api-base {base}/v1 --limit 2"
        assert main(f"run {options} --world {world} --out {tmp_path / 'a.jsonl'}".split()) == 0
    for more, said in [
        ("--results 3", "no run with these settings"),
        ("--date-cap none", "no run with these settings"),
        ("--limit 3", "lacks a request of this run"),
    ]:
        command = f"run {options} --replay {world} --out {tmp_path / f'{len(more)}.jsonl'} {more}"
        with pytest.raises(HoldfastError, match=said):
            main(command.split())
    with pytest.raises(HoldfastError, match="recorded world"):
        main(f"run {options} --replay {tmp_path / 'a.jsonl'} --out {tmp_path / 'z.jsonl'}".split())


def test_a_world_has_requests_statuses_date_limits_and_hashes_but_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("S2_API_KEY", "s3cret-s2")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-lm")
    world = tmp_path / "world.jsonl"
    turns = iter([fields("search_relevance", "deep"), fields("select", "p3")])
    with scholar(papers(4)) as s2, chat(lambda messages: next(turns)) as base:
        options = f"{OPTIONS} --api-base {base}/v1 --search semantic-scholar --limit 1"
        options += f" --search-api {s2}/graph/v1 --date-cap 2021-06-01"
        assert main(f"run {options} --world {world} --out {tmp_path / 'a.jsonl'}".split()) == 0
    entries = [json.loads(line) for line in world.read_text().splitlines()]
    (search,) = [e for e in entries if e["request"]["kind"] == "search"]
    assert search["request"]["until"] <= "2021-06-01"
    assert search["status"] == "ok"
    assert all(re.fullmatch(r"[0-9a-f]{64}", e["sha256"]) for e in entries)
    assert "s3cret" not in world.read_text()
    assert main(f"run {options} --replay {world} --out {tmp_path / 'b.jsonl'}".split()) == 0


def test_a_torn_last_line_is_dropped_and_asked_again(tmp_path):
    world = tmp_path / "world.jsonl"
    opened = World(world)
    opened.answer({"kind": "x", "number": 1}, lambda: ("ok", 1))
    opened.answer({"kind": "x", "number": 2}, lambda: ("ok", 2))
    opened.close()
    world.write_bytes(world.read_bytes()[:-5])
    opened = World(world)
    assert opened.answer({"kind": "x", "number": 1}, lambda: ("ok", 9)) == ("ok", 1)
    assert opened.answer({"kind": "x", "number": 2}, lambda: ("ok", 9)) == ("ok", 9)
    opened.close()
