"""A record read as a person would: what the agent thought, did and saw, and why it was wrong.

CiteME's authors read 50 failures (section 5.1): 50 % misread the excerpt, 32 % stopped at a similar
paper (2 of these 16 had the target among their results), 18 % found the target named in a paper and
selected that paper. A record shows whether the target was found, and whether a text named it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .data import Sample
from .matching import THRESHOLD, normalise, official_hit

REASON = re.compile(r"\[\[ ## reason ## \]\]\n(.*?)(?:\n\[\[ ##|\Z)", re.DOTALL)
IN_JSON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)"')  # also of a reply that was cut off
CITING, FOUND = "the citing paper selected", "found, not selected"
NAMED, NEVER = "named in a text read, not found", "never found"
KINDS = {
    CITING: "the target's title was in a text that was read, and the paper of that text was selected",
    FOUND: "a search returned the target, and another paper was selected",
    NAMED: "the target's title was in a text that was read, and no search returned it",
    NEVER: "neither a search nor a text that was read showed the target",
}


@dataclass
class Turn:
    """One action: why it was taken, what it returned, what it cost.

    `hits` are those of a search, each with `target` (whether it is the cited paper); `seen` is the
    text that the agent was shown, "" where the record holds none; `replies` are the model's, in
    order, unusable ones included.
    """

    step: int
    action: str = ""
    argument: str = ""
    reason: str = ""
    hits: list[dict[str, Any]] = field(default_factory=list)
    seen: str = ""
    error: str = ""
    replies: list[str] = field(default_factory=list)
    seconds: float = 0.0


def turns(record: dict[str, Any], sample: Sample, threshold: float = THRESHOLD) -> list[Turn]:
    """The turns of a record, a last one without action included if the agent ended in it."""
    written = {m["id"]: m for event in record["events"] for m in event.get("new_messages", ())}
    by_step: dict[int, Turn] = {}
    for event in record["events"]:
        turn = by_step.setdefault(event["step"], Turn(event["step"]))
        before = by_step.get(event["step"] - 1)
        turn.seconds += event.get("seconds", 0.0)
        if event["kind"] == "action":
            turn.action, turn.error = event["action"], event.get("error", "")
            words = (event.get("query", event.get("paper", "")), event.get("part"))
            turn.argument = " ".join(word for word in words if word)
            turn.hits = [
                {**hit, "target": official_hit(hit["title"], sample.titles, threshold)}
                for hit in event.get("hits", ())
            ]
        elif event["kind"] == "lm":
            if "reply" in event:
                turn.replies.append(event["reply"])
                turn.reason = reason_in(event["reply"]) or turn.reason
            else:
                turn.error = event.get("error", "")
            if before and not before.seen:
                prompt = [written[k] for k in event["prompt"] if k in written]
                before.seen = observation(prompt, sample)
        elif event["kind"] == "seen" and before:  # of an agent without a model
            before.seen = event["text"]
    for turn in by_step.values():
        if turn.action == "guess" and record["selection"]:
            turn.argument = record["selection"]["title"]
    return [t for _, t in sorted(by_step.items()) if t.action or t.replies or t.error]


def observation(prompt: Sequence[dict[str, Any]], sample: Sample) -> str:
    """What the last action returned, as the prompt of the next turn shows it; no excerpt in it."""
    last = max((k for k, m in enumerate(prompt, start=1) if m["role"] != "user"), default=0)
    shown = "\n".join(str(message["content"]) for message in prompt[last:])
    return shown.replace(sample.excerpt, "[the excerpt]").strip()


def reason_in(reply: str) -> str:
    """The reason that a reply states, "" if it is in none of the agent's two forms."""
    if found := REASON.search(reply):
        return found[1].strip()
    found = IN_JSON.search(reply)
    try:
        return json.loads(f'"{found[1]}"', strict=False).strip() if found else ""
    except ValueError:
        return ""


def failure(record: dict[str, Any], sample: Sample, threshold: float = THRESHOLD) -> str:
    """Which of `KINDS` a wrong answer is; the first that applies."""
    taken = turns(record, sample, threshold)
    named = {turn.argument.split(" ")[0] for turn in taken if names_target(turn, sample)}
    if record["selection"] and record["selection"]["id"] in named:
        return CITING
    if any(hit["target"] for turn in taken for hit in turn.hits):
        return FOUND
    return NAMED if named else NEVER


def names_target(turn: Turn, sample: Sample) -> bool:
    """Whether a text that was read holds a target's title, whatever its case and punctuation."""
    if turn.action not in ("read", "find_in_text", "search_text_snippet") or turn.error:
        return False
    text = f" {normalise(turn.seen)} "
    squeezed = text.replace(" ", "")  # text of PDFs may have lost the spaces between its words
    titles = [normalise(title) for title in sample.titles]
    return any(f" {t} " in text or (len(t) > 30 and t.replace(" ", "") in squeezed) for t in titles)


def failures(wrong: Iterable[tuple[dict[str, Any], Sample]], threshold: float) -> dict[str, int]:
    """How many of the wrong answers are of which kind, all kinds listed."""
    counts = Counter(failure(record, sample, threshold) for record, sample in wrong)
    return {kind: counts[kind] for kind in KINDS}
