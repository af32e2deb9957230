"""Write runs as logs of Inspect, for `inspect view` and `inspect log dump`.

The store of each sample contains its complete record, so `inspect score --scorer holdfast/citeme_scorer`
can score it again (with `--model none/none` for a model unknown to Inspect), and `holdfast cite import`
can restore the run.
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
from ..schema import Action, Call, Header, Message, Record
from ..trajectory import turns
from .scorer import RECORD, metadata, verdict

TASK, SCORER = "holdfast/citeme", "citeme_scorer"
HEADER = "header"  # key of the run's header in the log's metadata
METRICS = {
    "*": [{"name": "inspect_ai/mean", "options": {}}, {"name": "inspect_ai/stderr", "options": {}}]
}
EPOCH = "1970-01-01T00:00:00+00:00"  # start time of records without one
KINDS = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def log_of(
    header: Header, records: Mapping[Key, Record], dataset: Dataset, threshold: float = THRESHOLD
) -> EvalLog:
    """Convert a run to a log, with repeats as epochs; a sample without a score has an error."""
    agent, repeats = header.agent, header.repeats
    model = agent.model or f"none/{agent.name}"
    known = {sample.id: sample for sample in dataset.samples}
    ordered = [
        (records[sample.id, repeat], sample)
        for repeat in range(repeats)
        for sample in known.values()
        if (sample.id, repeat) in records
    ]
    searches = any(a.hits is not None for record, _ in ordered for a in record.actions)
    options = {"threshold": threshold, "searches": searches}
    samples = [
        eval_sample(record, sample, model, verdict(record, sample, threshold, searches))
        for record, sample in ordered
    ]
    started = min((r.started for r, _ in ordered if r.started), default=None)
    created = started or EPOCH
    finished = len(ordered) == repeats * len(known) and not any(s.error for s in samples)
    usage = sum((s.model_usage.get(model, ModelUsage()) for s in samples), ModelUsage())
    log = EvalLog(
        status="success" if finished else "cancelled",
        eval=EvalSpec(
            created=created,
            eval_id=header.config[:22],
            run_id=header.config[:22],
            task_id=header.config[22:44],
            task=TASK,
            task_registry_name=TASK,
            dataset=EvalDataset(
                name=dataset.name, samples=len(known), sample_ids=list(known), shuffled=False
            ),
            model=model,
            model_base_url=agent.api_base,
            model_generate_config=GenerateConfig(
                temperature=agent.temperature, max_tokens=agent.max_tokens
            ),
            config=EvalConfig(epochs=repeats),
            scorers=[{"name": SCORER, "options": options, "metrics": METRICS}],  # type: ignore[list-item]
            packages={"holdfast": header.version} if header.version else {},
            metadata={HEADER: header.plain()},
        ),
        plan=EvalPlan(steps=[EvalPlanStep(solver=agent.name, params=agent.plain())]),
        stats=EvalStats(
            started_at=created,
            completed_at=max((s.completed_at or "" for s in samples), default=""),
            model_usage={model: usage} if usage.total_tokens else {},
        ),
        samples=samples,
    )
    recompute_metrics(log)
    return log


def eval_sample(record: Record, sample: Sample, model: str, score: Score | None) -> EvalSample:
    """Convert a record with its conversation, its events, and its score, if any."""
    calls = record.calls
    written = {message.id: message for call in calls for message in call.new_messages}
    answer = record.selection.title if record.selection else ""
    messages: list[ChatMessage] = [ChatMessageUser(content=sample.excerpt)]
    if calls:
        messages = conversation(calls[-1], written)
    last = (calls[-1].reply or "") if calls else answer
    messages.append(ChatMessageAssistant(content=last))
    start = datetime.fromisoformat(record.started or EPOCH)
    end = start + timedelta(seconds=record.seconds)
    usage = usage_of(calls)
    happened = events(record, sample, model, written, start)
    if score:
        happened.append(
            ScoreEvent(
                score=score,
                target=list(sample.titles),
                scorer=SCORER,
                timestamp=end,
            )
        )
    return EvalSample(
        id=sample.id,
        epoch=record.repeat + 1,
        input=sample.excerpt,
        target=list(sample.titles),
        messages=messages,
        output=ModelOutput.from_content(model, answer),
        scores={SCORER: score} if score else None,
        metadata=metadata(sample),
        store={RECORD: record.plain()},
        events=happened,
        model_usage={model: usage} if usage.total_tokens else {},
        started_at=start.isoformat(),
        completed_at=end.isoformat(),
        total_time=record.seconds,
        error=None if score else EvalError(message=record.detail, traceback="", traceback_ansi=""),
    )


def events(
    record: Record,
    sample: Sample,
    model: str,
    written: Mapping[str | None, Message],
    start: datetime,
) -> list[Event]:
    """Calls of the model and actions, in order; each starts when the one before it ended."""
    seen = {turn.step: turn.seen for turn in turns(record, sample)}
    found: list[Event] = []
    passed = 0.0
    for number, event in enumerate(record.events):
        when: dict[str, Any] = {
            "timestamp": start + timedelta(seconds=passed),
            "working_start": passed,
        }
        if isinstance(event, Call):
            passed += event.seconds
            output = ModelOutput.from_content(model, event.reply or "")
            output.usage, output.time = usage_of([event]), event.seconds
            found.append(
                ModelEvent(
                    model=model,
                    input=conversation(event, written),
                    tools=[],
                    tool_choice="none",
                    config=GenerateConfig(),
                    output=output,
                    error=event.error or None,
                    **when,
                )
            )
        elif isinstance(event, Action):
            passed += event.seconds
            arguments = {"query": event.query, "paper": event.paper, "part": event.part}
            titles = "\n".join(hit.title for hit in event.hits or ())
            found.append(
                ToolEvent(
                    id=f"{sample.id}-{number}",
                    function=event.action,
                    arguments={name: value for name, value in arguments.items() if value},
                    result=seen.get(event.step) or titles,
                    error=ToolCallError("unknown", event.error) if event.error else None,
                    **when,
                )
            )
    return found


def conversation(call: Call, written: Mapping[str | None, Message]) -> list[ChatMessage]:
    """The messages that a call of the model sent."""
    sent = [written[key] for key in call.prompt if key in written]
    return [KINDS.get(m.role, ChatMessageUser)(id=m.id, content=m.content) for m in sent]


def usage_of(calls: list[Call]) -> ModelUsage:
    """The tokens of calls, and their price if the provider reported one."""
    tokens = tokens_of(calls)
    return ModelUsage(
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
        total_tokens=sum(tokens.values()),
        total_cost=usd_of(calls, None),
    )
