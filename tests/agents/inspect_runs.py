"""Runs of CiteME's task by Inspect and its mock model: to import it takes seconds."""

import re

from inspect_ai import eval as evaluate
from inspect_ai import score
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

from holdfast.agents.inspect_task import citeme, citeme_scorer
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.search.provider import ProviderError

__all__ = ["citeme_scorer", "generate", "read_eval_log", "score"]


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


class Down(LocalSearch):
    """A search provider whose service is down."""

    def search(self, *_):
        raise ProviderError("the service is down")
