"""CiteME as a task of Inspect, by the real package and its mock model."""

import re
import subprocess
import sys

import pytest

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai import eval as evaluate  # noqa: E402
from inspect_ai.log import read_eval_log  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.solver import generate  # noqa: E402

from holdfast import HoldfastError  # noqa: E402
from holdfast.agents.data import MINI_CITE_CORPUS, load  # noqa: E402
from holdfast.agents.inspect_task import citeme, citeme_scorer  # noqa: E402
from holdfast.agents.search import PROVIDERS  # noqa: E402
from holdfast.agents.search.local import LocalSearch  # noqa: E402
from holdfast.agents.search.provider import ProviderError  # noqa: E402

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


def test_the_task_runs_and_its_log_is_scored_anew(tmp_path):
    log = task_run(tmp_path, searcher, limit=4, epochs=2)
    assert log.status == "success"
    assert len(log.samples) == 8
    records = [s.store["record"] for s in log.samples]
    assert {r["status"] for r in records} == {"selected"}
    assert [a["action"] for a in records[0]["events"]] == ["search_relevance", "read", "select"]
    rate = sum(s.scores["citeme_scorer"].value["correct"] for s in log.samples) / 8
    assert 0 < means(log)["correct"] == rate < 1
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

    log = task_run(tmp_path, reply, citeme(commands="search"), limit=5)
    assert [s.store["record"]["status"] for s in log.samples] == list(behaviours)
    assert offered == [["search_relevance", "search_citation_count", "select"]] * 14 + [["select"]]
    assert [m.text for m in log.samples[0].messages if "Actions left: 2" in m.text]
    assert "no-such-id" in seen[1]


def test_the_output_of_another_solver_is_the_title(tmp_path):
    task = citeme()
    task.solver = generate()
    title = TEST.samples[0].titles[0]
    log = task_run(tmp_path, lambda *_: say(f" {title} "), task, limit=2)
    assert means(log) == {"correct": 0.5, "strict": 0.5, "found": 0}


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
    assert {s.store["record"]["status"] for s in log.samples} == {"provider_error"}


def test_inspect_finds_the_task_by_its_name(tmp_path):
    """By the entry point of the installed package: the command of docs/guides/citeme.md.

    In a process of its own, elsewhere: in a clone, Inspect takes the package for one that is not installed.
    """
    line = "inspect_ai eval holdfast/citeme --model mockllm/model -T commands=search --limit 1"
    command = [sys.executable, "-m", *f"{line} --display none --log-dir .".split()]
    subprocess.run(command, cwd=tmp_path, timeout=300, check=True)
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.eval.task_registry_name == "holdfast/citeme"
    assert log.eval.task_args["commands"] == "search"


def test_wrong_names_are_told():
    with pytest.raises(HoldfastError, match="commands"):
        citeme(commands="fly")
