"""CiteME as a task of Inspect, by the real package and its mock model."""

import re
import subprocess
import sys
from importlib import import_module

import pytest

from holdfast import HoldfastError
from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.search import PROVIDERS

TEST = load("mini-cite").select("test")


@pytest.fixture(scope="module")
def runs():
    """The module that imports Inspect, in the process only that runs these tests."""
    pytest.importorskip("inspect_ai")
    return import_module("inspect_runs")


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "INSPECT_LOG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def test_the_task_runs_and_its_log_is_scored_anew(runs, tmp_path):
    log = runs.task_run(tmp_path, runs.searcher, limit=4, epochs=2)
    assert log.status == "success"
    assert len(log.samples) == 8
    records = [s.store["record"] for s in log.samples]
    assert {r["status"] for r in records} == {"selected"}
    assert [a["action"] for a in records[0]["events"]] == ["search_relevance", "read", "select"]
    rate = sum(s.scores["citeme_scorer"].value["correct"] for s in log.samples) / 8
    assert 0 < runs.means(log)["correct"] == rate < 1
    # Judged anew, from the records in the log.
    again = runs.score(log, [runs.citeme_scorer()], action="overwrite", display="none")
    assert runs.means(again) == runs.means(log)


def test_a_model_is_told_what_it_may_do_and_stopped_where_it_may_not(runs, tmp_path):
    offered, seen = [], []
    replies = iter(
        [runs.call("select", paper_id="no-such-id"), runs.call("search_relevance", query="adapt")]
    )

    def wanders(number, messages, tools):
        offered.append([t.name for t in tools])
        return runs.call("search_relevance", query=f"words {number}")

    def errs(number, messages, tools):
        seen.append(messages[-2].text)
        return next(replies, None) or runs.call("select", paper_id=runs.first_hit(messages))

    behaviours = {
        "action_limit": wanders,
        "bad_format": lambda number, *_: runs.say(f"I think {number}"),
        "policy": lambda *_: runs.say("", stop_reason="content_filter"),
        "context": lambda *_: runs.say("", stop_reason="model_length"),
        "selected": errs,
    }
    turn = dict(zip([s.excerpt for s in TEST.samples], behaviours, strict=False))

    def reply(number, messages, tools):
        return behaviours[turn[messages[1].text]](number, messages, tools)

    log = runs.task_run(tmp_path, reply, runs.citeme(commands="search"), limit=5)
    assert [s.store["record"]["status"] for s in log.samples] == list(behaviours)
    assert offered == [["search_relevance", "search_citation_count", "select"]] * 14 + [["select"]]
    assert [m.text for m in log.samples[0].messages if "Actions left: 2" in m.text]
    assert "no-such-id" in seen[1]


def test_failed_calls_use_up_the_actions_and_so_end(runs, tmp_path):
    """Wrong arguments, JSON that cannot be parsed, and an unknown tool."""
    cut = runs.call("search_relevance", query="x")
    cut.message.tool_calls[0].parse_error = "not JSON"
    behaviours = [
        lambda: runs.call("search_relevance", words="x"),
        lambda: cut,
        lambda: runs.call("fly", to="the moon"),
    ]
    turn = dict(zip([s.excerpt for s in TEST.samples], behaviours, strict=False))
    log = runs.task_run(tmp_path, lambda number, m, tools: turn[m[1].text](), limit=3)
    for sample in log.samples:
        record = sample.store["record"]
        assert record["status"] == "action_limit"
        assert len(record["events"]) == 15
        assert all(event["error"] for event in record["events"])
        assert sum(m.role == "assistant" for m in sample.messages) == 15


def test_citeguards_actions_are_tools(runs, tmp_path):
    def reply(number, messages, tools):
        if number == 0:
            return runs.call("search_text_snippet", query="entropy minimization at test time")
        if number == 1:
            return runs.call("ask_for_more_context", query="which task?")
        paper = re.findall(r"^id: (\S+)$", "\n".join(m.text for m in messages), re.M)[0]
        if number == 2:
            return runs.call("find_in_text", paper_id=paper, query="entropy")
        return runs.call("select", paper_id=paper)

    log = runs.task_run(tmp_path, reply, runs.citeme(commands="citeguard"), limit=1)
    record = log.samples[0].store["record"]
    assert record["status"] == "selected"
    names = ["search_text_snippet", "ask_for_more_context", "find_in_text", "select"]
    assert [event["action"] for event in record["events"]] == names
    shown = [m.text for m in log.samples[0].messages if m.role == "tool"]
    assert "passage:" in shown[0]
    assert "No more context" in shown[1]


@pytest.mark.parametrize("solver", ["from memory", "another"])
def test_titles_from_memory_and_outputs_of_another_solver_are_guesses(solver, runs, tmp_path):
    task = runs.citeme(commands="none") if solver == "from memory" else runs.citeme()
    if solver == "another":
        task.solver = runs.generate()
    title = TEST.samples[0].titles[0]
    log = runs.task_run(tmp_path, lambda *_: runs.say(f" {title} "), task, limit=2)
    assert runs.means(log) == {"correct": 0.5, "strict": 0.5, "found": 0}
    if solver == "from memory":
        assert [s.store["record"]["status"] for s in log.samples] == ["guessed"] * 2


def test_limits_of_inspect_end_a_sample_as_limits_of_ours_do(runs, tmp_path):
    log = runs.task_run(tmp_path, runs.searcher, limit=1, token_limit=150)
    assert log.samples[0].store["record"]["status"] == "sample_limit"
    assert runs.means(log)["correct"] == 0


def test_a_service_that_does_not_answer_is_an_error_and_no_wrong_answer(
    runs, tmp_path, monkeypatch
):
    monkeypatch.setitem(PROVIDERS, "down", lambda corpus=MINI_CITE_CORPUS, **_: runs.Down(corpus))
    log = runs.task_run(
        tmp_path, runs.searcher, runs.citeme(search="down"), limit=2, fail_on_error=False
    )
    assert all("the service is down" in s.error.message for s in log.samples)
    assert not any(s.scores for s in log.samples)
    assert {s.store["record"]["status"] for s in log.samples} == {"provider_error"}


def test_inspect_finds_the_task_by_its_name(runs, tmp_path):
    """By the entry point of the installed package: the command of docs/guides/citeme.md.

    In a process of its own, elsewhere: in a clone, Inspect takes the package for one that is not installed.
    """
    line = "inspect_ai eval holdfast/citeme --model mockllm/model -T commands=search --limit 1"
    command = [sys.executable, "-m", *f"{line} --display none --log-dir .".split()]
    subprocess.run(command, cwd=tmp_path, timeout=300, check=True)
    (path,) = tmp_path.glob("*.eval")
    log = runs.read_eval_log(str(path))
    assert log.eval.task_registry_name == "holdfast/citeme"
    assert log.eval.task_args["commands"] == "search"


def test_wrong_names_are_told(runs):
    with pytest.raises(HoldfastError, match="commands"):
        runs.citeme(commands="fly")
    with pytest.raises(HoldfastError, match="search 'foo'"):
        runs.citeme(search="foo")
