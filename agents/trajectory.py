"""A record read as a person would: what the agent thought, did and saw, turn by turn."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .data import Sample
from .matching import THRESHOLD, official_hit

REASON = re.compile(r"\[\[ ## reason ## \]\]\n(.*?)(?:\n\[\[ ##|\Z)", re.DOTALL)
IN_JSON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)"')  # also of a reply that was cut off


@dataclass
class Turn:
    """One action: why it was taken, what it returned, what it cost.

    `hits` are those of a search, each with `target` (whether it is the cited paper); `seen` is the
    text that the agent was shown, "" where the record holds none; `replies` are the model's, in
    order, unusable ones included.
    """

    step: int
    action: str
    argument: str
    reason: str = ""
    hits: list[dict[str, Any]] = field(default_factory=list)
    seen: str = ""
    error: str = ""
    replies: list[str] = field(default_factory=list)
    seconds: float = 0.0


def turns(record: dict[str, Any], sample: Sample, threshold: float = THRESHOLD) -> list[Turn]:
    """The turns of a record, a last one without action included if the agent ended in it."""
    messages = {
        message["id"]: message
        for event in record["events"]
        for message in event.get("new_messages", ())
    }
    by_step: dict[int, Turn] = {}
    for event in record["events"]:
        turn = by_step.setdefault(event["step"], Turn(event["step"], "", ""))
        turn.seconds += event.get("seconds", 0.0)
        if event["kind"] == "action":
            turn.action = event["action"]
            turn.argument = event.get("query", event.get("paper", ""))
            turn.argument += f" {event['part']}" if event.get("part") else ""
            turn.error = event.get("error", "")
            turn.hits = [
                {**hit, "target": official_hit(hit["title"], sample.titles, threshold)}
                for hit in event.get("hits", ())
            ]
        elif event["kind"] == "lm":
            turn.replies += [event["reply"]] if "reply" in event else []
            turn.reason = reason_in(event.get("reply", "")) or turn.reason
            turn.error = event.get("error", "") if "reply" not in event else turn.error
            before = by_step.get(event["step"] - 1)
            if before and not before.seen:
                before.seen = observation(
                    [messages[k] for k in event["prompt"] if k in messages], sample
                )
        elif (
            event["kind"] == "seen" and event["step"] - 1 in by_step
        ):  # of an agent without a model
            by_step[event["step"] - 1].seen = event["text"]
    for turn in by_step.values():
        if turn.action == "guess" and record["selection"]:
            turn.argument = record["selection"]["title"]
    return [t for _, t in sorted(by_step.items()) if t.action or t.replies or t.error]


def observation(prompt: list[dict[str, Any]], sample: Sample) -> str:
    """What the last action returned, as the prompt of the next turn shows it; no excerpt in it."""
    shown: list[str] = []
    for message in reversed(prompt):
        if message["role"] != "user":
            break
        shown.append(str(message["content"]))
    return "\n".join(reversed(shown)).replace(sample.excerpt, "[the excerpt]").strip()


def reason_in(reply: str) -> str:
    """The reason that a reply states, "" if it is in none of the agent's two forms."""
    if found := REASON.search(reply):
        return found[1].strip()
    found = IN_JSON.search(reply)
    try:
        return json.loads(f'"{found[1]}"', strict=False).strip() if found else ""
    except ValueError:
        return ""
