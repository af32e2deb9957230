"""CiteME as a task of Inspect, by the real package and its mock model, and its logs of our runs."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai import eval as evaluate  # noqa: E402
from inspect_ai.log import read_eval_log  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from servers import completion, fields, serve  # noqa: E402

from holdfast import HoldfastError  # noqa: E402
from holdfast.agents.cite import main  # noqa: E402
from holdfast.agents.citeagent.program import CiteAgent, LMAgent  # noqa: E402
from holdfast.agents.data import MINI_CITE_CORPUS, load  # noqa: E402
from holdfast.agents.inspect.scorer import citeme_scorer  # noqa: E402
from holdfast.agents.inspect.task import citeme  # noqa: E402
from holdfast.agents.lm.providers import ScriptedLM  # noqa: E402
from holdfast.agents.protocol import ProviderError  # noqa: E402
from holdfast.agents.results import read  # noqa: E402
from holdfast.agents.run import run  # noqa: E402
from holdfast.agents.score import score  # noqa: E402
from holdfast.agents.search.local import LocalSearch  # noqa: E402
from holdfast.agents.search.open_search import PROVIDERS  # noqa: E402

TEST = load("mini-cite").select("test")


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "INSPECT_LOG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def call(name, **arguments):
    return ModelOutput.for_tool_call("mockllm/model", name, arguments)


def say(text, **more):
    return ModelOutput.from_content("mockllm/model", text, **more)


def task_run(tmp_path, reply, task=None, **options):
    """A run of the task with the mock model; `reply` gives call k of a sample, from its messages."""

    def answer(messages, tools, choice, config):
        output = reply(sum(m.role == "assistant" for m in messages), messages, tools)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    model = get_model("mockllm/model", custom_outputs=answer)
    options = {"limit": 3, "display": "none", "log_dir": str(tmp_path / "logs"), **options}
    (log,) = evaluate(task or citeme(), model=model, **options)
    return log


def first_hit(messages):
    shown = [m.text for m in messages if m.role == "tool" and "papers:" in m.text]
    return re.findall(r"^id: (\S+)$", shown[0], re.MULTILINE)[0]


def searcher(number, messages, tools):
    if number == 0:
        excerpt = next(m.text for m in messages if m.role == "user")
        return call("search_relevance", query=excerpt.replace("[CITATION]", ""))
    return call("read" if number == 1 else "select", paper_id=first_hit(messages))


def means(log):
    return {s.name: s.metrics["mean"].value for s in log.results.scores}


def test_the_task_runs_and_its_log_becomes_a_run_with_the_same_scores(tmp_path, capsys):
    log = task_run(tmp_path, searcher, limit=4, epochs=2)
    assert log.status == "success"
    assert log.eval.config.epochs == 2
    assert len(log.samples) == 8
    out = tmp_path / "run.jsonl"
    main(["import", log.location, "--out", str(out), "--limit", "4"])
    header, records = read(out)
    scores = score(records, TEST.select("test", 4), repeats=header.repeats)
    assert scores.missing == 0
    assert 0 < scores.accuracy.rate < 1
    assert means(log) == pytest.approx(
        {
            "correct": scores.accuracy.rate,
            "strict": scores.strict_accuracy.rate,
            "found": scores.found_in_search.rate,
        }
    )
    assert scores.tokens == {"input": 8 * 300, "output": 8 * 30}
    assert scores.reads.n == 8
    main(["score", str(out)])
    assert "inspect citeagent on mini-cite" in capsys.readouterr().out
    main(["show", str(out), log.samples[0].id])
    assert "READ" in capsys.readouterr().out
    # Judged anew, from the records in the log.
    again = inspect_ai.score(log, [citeme_scorer()], action="overwrite", display="none")
    assert means(again) == means(log)


def test_a_model_is_told_what_it_may_do_and_stopped_where_it_may_not(tmp_path):
    offered, seen = [], []
    replies = iter([call("select", paper_id="no-such-id"), call("search_relevance", query="adapt")])

    def wanders(number, messages, tools):
        offered.append([t.name for t in tools])
        return call("search_relevance", query=f"words {number}")

    def errs(number, messages, tools):
        seen.append(messages[-2].text)
        return next(replies, None) or call("select", paper_id=first_hit(messages))

    behaviours = {
        "action_limit": wanders,
        "bad_format": lambda number, *_: say(f"I think {number}"),
        "policy": lambda *_: say("", stop_reason="content_filter"),
        "context": lambda *_: say("", stop_reason="model_length"),
        "selected": errs,
    }
    turn = dict(zip([s.excerpt for s in TEST.samples], behaviours, strict=False))

    def reply(number, messages, tools):
        return behaviours[turn[messages[1].text]](number, messages, tools)

    log = task_run(tmp_path, reply, citeme(max_actions=3, commands="search"), limit=5)
    assert [s.store["record"]["status"] for s in log.samples] == list(behaviours)
    assert offered == [["search_relevance", "search_citation_count", "select"]] * 2 + [["select"]]
    assert [m.text for m in log.samples[0].messages if "Actions left: 2" in m.text]
    assert "no-such-id" in seen[1]


def calling(name, **arguments):
    """A server's completion that calls a tool."""
    reply = completion(None, finish="tool_calls")
    body = json.loads(reply.body)
    function = {"name": name, "arguments": json.dumps(arguments)}
    body["choices"][0]["message"]["tool_calls"] = [
        {"id": "call-1", "type": "function", "function": function}
    ]
    reply.body = json.dumps(body).encode()
    return reply


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai-api/loopback/small", "ollama/small"])
def test_inspects_own_clients_reach_a_server(tmp_path, monkeypatch, model):
    asked = []

    def respond(method, path, query, body, headers):
        asked.append((path, body["model"]))
        turn = sum(m["role"] == "assistant" for m in body["messages"])
        if turn:
            return calling("select", paper_id="tent-2021")
        return calling("search_relevance", query="entropy minimization at test time")

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("LOOPBACK_API_KEY", "none")
    with serve(respond) as address:
        reached = get_model(model, base_url=f"{address}/v1")
        options = {"limit": 1, "display": "none", "log_dir": str(tmp_path / "logs")}
        (log,) = evaluate(citeme(), model=reached, **options)
    assert log.status == "success", log.error
    record = log.samples[0].store["record"]
    assert (record["status"], record["selection"]["id"]) == ("selected", "tent-2021")
    assert asked == [("/v1/chat/completions", model.rpartition("/")[2])] * 2


@pytest.mark.parametrize(("commands", "answered"), [("search", True), ("none", False)])
def test_a_model_of_ours_needs_no_network(tmp_path, monkeypatch, commands, answered):
    # Inspect's mock model would fetch a tokenizer, through this.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    options = {"limit": 3, "display": "none", "log_dir": str(tmp_path / "logs")}
    (log,) = evaluate(citeme(commands=commands), model="holdfast/first-hit", **options)
    assert log.status == "success", log.error
    assert all(s.store["record"]["status"] != "crash" for s in log.samples)
    assert bool(means(log)["correct"]) == answered


def test_views_of_texts_are_tools_too(tmp_path):
    replies = iter(
        [
            call("ask_for_more_context"),
            call("search_relevance", query="efficient adaptation without forgetting"),
            call("find_in_text", paper_id="eata-2022", words="Fisher"),
            call("select", paper_id="eata-2022"),
        ]
    )
    task = citeme(commands="search+read+find")
    log = task_run(tmp_path, lambda *_: next(replies), task, sample_id="mini-04", limit=None)
    assert means(log) == {"correct": 1, "strict": 1, "found": 1}
    shown = [m.text for m in log.samples[0].messages if m.role == "tool"]
    assert "Fisher" in shown[2]


def test_without_commands_the_reply_is_the_title_and_nothing_is_found(tmp_path):
    title = TEST.samples[0].titles[0]
    log = task_run(tmp_path, lambda *_: say(f" {title} "), citeme(commands="none"), limit=2)
    assert means(log) == {"correct": 0.5, "strict": 0.5}
    assert_json(log.location)
    path, out = tmp_path / "run.jsonl", tmp_path / "run.eval"
    main(["import", log.location, "--out", str(path)])
    main(["export", str(path), "--out", str(out)])
    assert_json(out)
    assert means(read_eval_log(str(out))) == means(log)


def test_a_sample_that_searches_nothing_has_not_found_its_target(tmp_path):
    def reply(number, messages, tools):
        silent = messages[1].text == TEST.samples[0].excerpt
        return say("?") if silent else searcher(number, messages, tools)

    log = task_run(tmp_path, reply, limit=2)
    assert {s.store["record"]["status"] for s in log.samples} == {"bad_format", "selected"}
    assert_json(log.location)


def assert_json(path):
    """Every file of a log is JSON, which has no NaN."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    with zipfile.ZipFile(str(path).removeprefix("file://")) as log:
        names = [name for name in log.namelist() if name.endswith(".json")]
        assert names
        for name in names:
            json.loads(log.read(name), parse_constant=refuse)


def test_limits_of_inspect_end_a_sample_as_limits_of_ours_do(tmp_path):
    log = task_run(tmp_path, searcher, limit=1, token_limit=150)
    assert log.samples[0].store["record"]["status"] == "sample_limit"
    assert means(log)["correct"] == 0


class Down(LocalSearch):
    """A search of one's own whose service is down."""

    def search(self, *_):
        raise ProviderError("the service is down")


def test_a_service_that_does_not_answer_is_an_error_and_no_wrong_answer(tmp_path, monkeypatch):
    monkeypatch.setitem(PROVIDERS, "down", lambda corpus=MINI_CITE_CORPUS, **_: Down(corpus))
    log = task_run(tmp_path, searcher, citeme(search="down"), limit=2, fail_on_error=False)
    assert all("the service is down" in s.error.message for s in log.samples)
    assert not any(s.scores for s in log.samples)
    out = tmp_path / "run.jsonl"
    main(["import", log.location, "--out", str(out)])
    assert {r.status for r in read(out)[1].values()} == {"provider_error"}


def test_inspect_finds_the_task_by_its_name(tmp_path):
    """By the entry point of the installed package: the command of docs/guides/citeme.md."""
    inspect = Path(sys.executable).with_name("inspect")
    task = [str(inspect), "eval", "holdfast/citeme", "--model", "holdfast/first-hit"]
    options = ["-T", "commands=search", "--limit", "1", "--display", "none", "--log-dir", "."]
    subprocess.run([*task, *options], cwd=tmp_path, timeout=300, check=True)
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.eval.task_registry_name == "holdfast/citeme"
    assert log.eval.task_args["commands"] == "search"


def exported(tmp_path, replies, name="run", samples=4, repeats=1):
    """A run of the DSPy form with a scripted model, and its log."""

    def reply(messages):
        turn = sum(m["role"] == "assistant" for m in messages)
        return replies[min(turn, len(replies) - 1)]

    path, out = tmp_path / f"{name}.jsonl", tmp_path / "logs" / f"{name}.eval"
    agent = LMAgent(CiteAgent("search+read"), ScriptedLM(reply))
    run(TEST.select("test", samples), agent, LocalSearch(MINI_CITE_CORPUS), path, repeats=repeats)
    main(["export", str(path), "--out", str(out)])
    return path, out


REPLIES = [
    fields("search_relevance", "entropy minimization at test time"),
    fields("read", "tent-2021"),
    fields("select", "tent-2021"),
]


def test_a_run_is_a_log_that_inspect_dumps_and_scores(tmp_path, capfd):
    path, out = exported(tmp_path, REPLIES, repeats=2)
    records = read(path)[1]
    scores = score(records, TEST.select("test", 4), repeats=2)
    log = read_eval_log(str(out))
    assert log.status == "success"
    assert means(log)["correct"] == scores.accuracy.rate > 0
    assert means(log)["found"] == scores.found_in_search.rate
    assert {s.epoch for s in log.samples} == {1, 2}
    assert log.eval.model == "scripted/scripted"
    usage = log.stats.model_usage["scripted/scripted"]
    assert usage.input_tokens == scores.tokens["input"]
    sample = log.samples[0]
    assert [e.event for e in sample.events] == ["model", "tool"] * 3 + ["score"]
    assert "entropy minimization" in sample.events[1].arguments["query"]
    assert "Tent" in sample.events[1].result
    assert "tent-2021" in sample.messages[-1].text
    assert sample.total_time == records[sample.id, 0].seconds
    # By Inspect's own commands, and back.
    from inspect_ai._cli.log import log_command

    capfd.readouterr()
    log_command.main(["dump", str(out)], standalone_mode=False)
    dumped = json.loads(capfd.readouterr().out)
    assert dumped["samples"][0]["store"]["record"] == records[sample.id, 0].plain()
    main(["import", str(out), "--out", str(tmp_path / "back.jsonl")])
    assert read(tmp_path / "back.jsonl")[1] == records
    again = inspect_ai.score(
        log, [citeme_scorer()], action="overwrite", display="none", model="none/none"
    )
    assert means(again) == means(log)


def test_a_run_without_a_model_is_a_log_too(tmp_path):
    path, out = tmp_path / "rules.jsonl", tmp_path / "rules.eval"
    main(["run", "--agent", "rules", "--limit", "3", "--out", str(path)])
    main(["export", str(path), "--out", str(out)])
    log = read_eval_log(str(out))
    assert log.eval.model == "none/rules"
    assert {e.event for e in log.samples[0].events} == {"tool", "score"}
    assert log.samples[0].output.completion == read(path)[1]["mini-01", 0].selection.title


def test_what_is_unanswered_is_an_error_in_the_log(tmp_path):
    path, out = exported(tmp_path, REPLIES)
    lines = path.read_text().splitlines()
    broken = {**json.loads(lines[1]), "status": "provider_error", "detail": "no answer"}
    path.write_text("\n".join([lines[0], json.dumps(broken), *lines[2:4]]) + "\n")
    main(["export", str(path), "--out", str(out)])
    log = read_eval_log(str(out))
    assert log.status == "cancelled"
    assert [s.error.message for s in log.samples if s.error] == ["no answer"]
    assert log.results.scores[0].scored_samples == 2


def test_wrong_names_are_told(tmp_path):
    path = tmp_path / "run.jsonl"
    main(["run", "--agent", "bm25", "--limit", "1", "--out", str(path)])
    with pytest.raises(HoldfastError, match=r"run\.json.*\.eval"):
        main(["export", str(path), "--out", str(tmp_path / "run.json")])
    broken = tmp_path / "broken.eval"
    broken.write_text("nothing")
    with pytest.raises(HoldfastError, match="Inspect"):
        main(["import", str(broken), "--out", str(tmp_path / "new.jsonl")])
    with pytest.raises(HoldfastError, match="commands"):
        citeme(commands="fly")
