"""A disk that fills up costs no finished sample, and no file's words reach the terminal as orders."""

import contextlib
import json
import shutil

import pytest

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.data import MINI_CITE, MINI_CITE_CORPUS, load
from holdfast.agents.lm.providers import ScriptedLM
from holdfast.agents.results import ROOM, read
from holdfast.agents.run import run
from holdfast.agents.search.local import LocalSearch

resource = pytest.importorskip("resource")


@contextlib.contextmanager
def files_of_at_most(size):
    """The kernel refuses to let any file of this process grow beyond that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_can_grow_no_further_stops_the_run_and_the_same_command_goes_on(tmp_path):
    out = tmp_path / "run.jsonl"
    command = ["run", "--agent", "bm25", "--out", str(out), "--workers", "1", "--limit", "9"]
    with files_of_at_most(9_000), pytest.raises(HoldfastError, match=r"run\.jsonl.*File too large"):
        main(command)
    kept = read(out)[1]
    assert 0 < len(kept) < 9
    assert out.read_bytes().endswith(b"}\n")  # no half of a record
    assert main(command) == 0
    assert len(read(out)[1]) == 9
    assert kept.items() <= read(out)[1].items()


def test_a_recording_that_can_grow_no_further_is_a_sentence(tmp_path):
    replies = tmp_path / "replies.json"
    replies.write_text(json.dumps(["Title: x " * 300]))
    tape = tmp_path / "tape.jsonl"
    tape.write_text("{}\n" * 1000)
    command = ["run", "--model", f"scripted/{replies}", "--record", str(tape), "--limit", "1"]
    with files_of_at_most(3_000), pytest.raises(HoldfastError, match=r"tape\.jsonl.*--record"):
        main([*command, "--out", str(tmp_path / "run.jsonl")])


def test_samples_under_way_are_finished_and_none_is_begun_where_the_disk_is_nearly_full(
    tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)
    free = iter([ROOM * 2] * 3)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: usage._replace(free=next(free, ROOM - 1))
    )
    out, asked = tmp_path / "run.jsonl", []

    def reply(messages):
        asked.append(messages)
        return "no answer"

    agent = LMAgent(CiteAgent("none", repairs=0), ScriptedLM(reply))
    dataset = load("mini-cite").select("test", 8)
    with pytest.raises(HoldfastError, match=r"32 MB.* 3 samples .*, 5 "):
        run(dataset, agent, LocalSearch(MINI_CITE_CORPUS), out, workers=2)
    assert len(read(out)[1]) == len(asked) == 3
    monkeypatch.undo()
    run(dataset, agent, LocalSearch(MINI_CITE_CORPUS), out)
    assert len(read(out)[1]) == len(asked) == 8


ORDERS = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt"


def test_nothing_in_a_file_gives_the_terminal_orders(tmp_path, capsys):
    out = tmp_path / "run.jsonl"
    main(["run", "--agent", "rules", "--limit", "2", "--out", str(out)])
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    lines[0]["agent"] |= {"name": f"agent {ORDERS}", "model": ORDERS}
    for record in lines[1:]:
        record |= {"status": "guessed", "detail": ORDERS}
        record["selection"]["title"] += ORDERS
        record["events"][0] |= {"action": ORDERS, "query": ORDERS, "error": ORDERS}
        for hit in record["events"][0]["hits"]:
            hit["title"] += ORDERS
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = tmp_path / f"a{ORDERS}.csv"
    shutil.copy(MINI_CITE, data)
    for command in (
        ["score", str(out)],
        ["score", str(out), "--json"],
        ["score", str(out), str(out)],
        ["show", str(out), "mini-01", "--full"],
        ["compare", str(out), str(out)],
        ["data", "--data", str(data)],
        ["ambiguity", str(data), "--list"],
        ["run", "--agent", "bm25", "--data", str(data), "--limit", "1", "--out", f"{out}2"],
    ):
        main(command)
        said = "".join(capsys.readouterr())
        assert said
        assert not {c for c in said if not c.isprintable()} - {"\n"}
