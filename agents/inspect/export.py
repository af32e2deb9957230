"""Runs of ours as logs of Inspect, which `inspect view` and `inspect log dump` open.

A sample's record lies whole in its store, so `inspect score --scorer holdfast/citeme_scorer` judges it anew
(with `--model none/none` where Inspect does not know the model), and `holdfast cite import` makes the run
of it again.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from inspect_ai.event import Event, ModelEvent, ScoreEvent, ToolEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalPlan,
    EvalPlanStep,
    EvalSample,
    EvalSpec,
    EvalStats,
    recompute_metrics,
)
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCallError

from ..costs import tokens_of, usd_of
from ..data import Dataset, Sample
from ..matching import THRESHOLD
from ..results import Key
from ..trajectory import turns
from .samples import metadata
from .scorer import RECORD, verdict

TASK, SCORER = "holdfast/citeme", "citeme_scorer"
HEADER = "header"  # key of the run's header in the log's metadata
METRICS = {
    "*": [{"name": "inspect_ai/mean", "options": {}}, {"name": "inspect_ai/stderr", "options": {}}]
}
KINDS = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
Record = Mapping[str, Any]


def log_of(
    header: Record, records: Mapping[Key, Any], dataset: Dataset, threshold: float = THRESHOLD
) -> EvalLog:
    """The log of a run, its repeats as epochs; a sample without an answer has an error, no score."""
    agent, repeats = header["agent"], header["repeats"]
    model = agent.get("model") or f"none/{agent['name']}"
    known = {sample.id: sample for sample in dataset.samples}
    ordered = [
        (records[sample.id, repeat], sample)
        for repeat in range(repeats)
        for sample in known.values()
        if (sample.id, repeat) in records
    ]
    searches = any("hits" in event for record, _ in ordered for event in record["events"])
    options = {"threshold": threshold, "searches": searches}
    samples = [
        eval_sample(record, sample, model, verdict(record, sample, threshold, searches))
        for record, sample in ordered
    ]
    started = min((r["started"] for r, _ in ordered if "started" in r), default=None)
    created = started or "1970-01-01T00:00:00+00:00"
    finished = len(ordered) == repeats * len(known) and not any(s.error for s in samples)
    usage = sum((s.model_usage.get(model, ModelUsage()) for s in samples), ModelUsage())
    log = EvalLog(
        status="success" if finished else "cancelled",
        eval=EvalSpec(
            created=created,
            eval_id=header["config"][:22],
            run_id=header["config"][:22],
            task_id=header["config"][22:44],
            task=TASK,
            task_registry_name=TASK,
            dataset=EvalDataset(
                name=dataset.name, samples=len(known), sample_ids=list(known), shuffled=False
            ),
            model=model,
            model_base_url=agent.get("api_base"),
            model_generate_config=GenerateConfig(
                temperature=agent.get("temperature"), max_tokens=agent.get("max_tokens")
            ),
            config=EvalConfig(epochs=repeats),
            scorers=[{"name": SCORER, "options": options, "metrics": METRICS}],  # type: ignore[list-item]
            packages={"holdfast": header["version"]} if "version" in header else {},
            metadata={HEADER: dict(header)},
        ),
        plan=EvalPlan(steps=[EvalPlanStep(solver=agent["name"], params=dict(agent))]),
        stats=EvalStats(
            started_at=created,
            completed_at=max((s.completed_at or "" for s in samples), default=""),
            model_usage={model: usage} if usage.total_tokens else {},
        ),
        samples=samples,
    )
    recompute_metrics(log)
    return log


def eval_sample(record: Any, sample: Sample, model: str, score: Score | None) -> EvalSample:
    """A record with its conversation, its events, and our verdict if it has an answer."""
    calls = [e for e in record["events"] if e["kind"] == "lm"]
    written = {m["id"]: m for call in calls for m in call["new_messages"]}
    answer = (record["selection"] or {}).get("title") or ""
    messages: list[ChatMessage]
    if calls:
        messages = [*conversation(calls[-1], written), said(calls[-1].get("reply", ""))]
    else:
        messages = [ChatMessageUser(content=sample.excerpt), said(answer)]
    start = datetime.fromisoformat(record.get("started", "1970-01-01T00:00:00+00:00"))
    usage = usage_of(calls)
    happened = events(record, sample, model, written, start)
    if score:
        happened.append(
            ScoreEvent(
                score=score,
                target=list(sample.titles),
                scorer=SCORER,
                timestamp=start + timedelta(seconds=record["seconds"]),
            )
        )
    return EvalSample(
        id=sample.id,
        epoch=record["repeat"] + 1,
        input=sample.excerpt,
        target=list(sample.titles),
        messages=messages,
        output=ModelOutput.from_content(model, answer),
        scores={SCORER: score} if score else None,
        metadata=metadata(sample),
        store={RECORD: record},
        events=happened,
        model_usage={model: usage} if usage.total_tokens else {},
        started_at=start.isoformat(),
        completed_at=(start + timedelta(seconds=record["seconds"])).isoformat(),
        total_time=record["seconds"],
        error=None
        if score
        else EvalError(message=record["detail"], traceback="", traceback_ansi=""),
    )


def events(
    record: Any, sample: Sample, model: str, written: Mapping[str, Any], start: datetime
) -> list[Event]:
    """Calls of the model and actions, in order, each at the time that those before it took."""
    seen = {turn.step: turn.seen for turn in turns(record, sample)}
    found: list[Event] = []
    passed = 0.0
    for number, event in enumerate(record["events"]):
        when: dict[str, Any] = {
            "timestamp": start + timedelta(seconds=passed),
            "working_start": passed,
        }
        passed += event.get("seconds", 0.0)
        if event["kind"] == "lm":
            output = ModelOutput.from_content(model, event.get("reply", ""))
            output.usage, output.time = usage_of([event]), event["seconds"]
            found.append(
                ModelEvent(
                    model=model,
                    input=conversation(event, written),
                    tools=[],
                    tool_choice="none",
                    config=GenerateConfig(),
                    output=output,
                    error=event.get("error"),
                    **when,
                )
            )
        elif event["kind"] == "action":
            arguments = {k: event[k] for k in ("query", "paper", "part") if event.get(k)}
            titles = "\n".join(hit["title"] for hit in event.get("hits", ()))
            wrong = event.get("error")
            found.append(
                ToolEvent(
                    id=f"{sample.id}-{number}",
                    function=event["action"],
                    arguments=arguments,
                    result=seen.get(event["step"]) or titles,
                    error=ToolCallError("unknown", wrong) if wrong else None,
                    **when,
                )
            )
    return found


def conversation(call: Record, written: Mapping[str, Any]) -> list[ChatMessage]:
    """The messages that a call of the model sent."""
    return [
        KINDS.get(written[key]["role"], ChatMessageUser)(id=key, content=written[key]["content"])
        for key in call["prompt"]
        if key in written
    ]


def said(text: str) -> ChatMessageAssistant:
    return ChatMessageAssistant(content=text)


def usage_of(calls: list[Any]) -> ModelUsage:
    """The tokens of calls, and their price where the provider named one."""
    tokens = tokens_of([{"usage": call.get("usage") or {}} for call in calls])
    return ModelUsage(
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
        total_tokens=tokens["input"] + tokens["output"],
        total_cost=usd_of(calls, None),
    )
