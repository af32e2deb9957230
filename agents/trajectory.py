"""A record as a sequence of turns (reply, action, result), and the cause of a wrong answer.

CiteME's authors read 50 failures (section 5.1): 50 % misread the excerpt, 32 % stopped at a similar
paper (2 of these 16 had the target among their results), 18 % found a paper that names the target and
selected that paper. A record shows whether the target was found, and whether a text named it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .data import Sample
from .matching import normalise, official_hit
from .records import Action, Call, Hit, Message, Record, Seen

_REASON = re.compile(r"\[\[ ## reason ## \]\]\n(.*?)(?:\n\[\[ ##|\Z)", re.DOTALL)
_IN_JSON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)"')  # also of a reply that was cut off
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
    """One action with its reason, result and duration.

    `hits` are the results of a search, each with a flag for the cited paper; `seen` is the text shown to
    the agent, "" if the record has none; `replies` are the model's replies in order, including unusable
    ones; `seconds` includes the model's calls.
    """

    step: int
    action: str = ""
    argument: str = ""
    reason: str = ""
    hits: list[tuple[Hit, bool]] = field(default_factory=list)
    seen: str = ""
    error: str = ""
    replies: list[str] = field(default_factory=list)
    seconds: float = 0.0


def turns(record: Record, sample: Sample) -> list[Turn]:
    """The turns of a record, including a last one without an action."""
    written = {message.id: message for call in record.calls for message in call.new_messages}
    by_step: dict[int, Turn] = {}
    for event in record.events:
        turn = by_step.setdefault(event.step, Turn(event.step))
        before = by_step.get(event.step - 1)
        if isinstance(event, Action):
            turn.seconds += event.seconds
            turn.action, turn.error = event.action, event.error
            turn.argument = " ".join(filter(None, (event.query, event.paper, event.part)))
            turn.hits = [(hit, official_hit(hit.title, sample.titles)) for hit in event.hits or ()]
        elif isinstance(event, Call):
            turn.seconds += event.seconds
            if event.reply is None:
                turn.error = event.error
            else:
                turn.replies.append(event.reply)
                turn.reason = _reason_in(event.reply) or turn.reason
            if before and not before.seen:
                prompt = [written[key] for key in event.prompt if key in written]
                before.seen = _observation(prompt, sample)
        elif isinstance(event, Seen) and before:
            before.seen = event.text
    for turn in by_step.values():
        if turn.action == "guess" and record.selection:
            turn.argument = record.selection.title
    return [t for _, t in sorted(by_step.items()) if t.action or t.replies or t.error]


def _observation(prompt: Sequence[Message], sample: Sample) -> str:
    """The result of the last action as shown in the prompt of the next turn, without the excerpt."""
    last = max((k for k, m in enumerate(prompt, start=1) if m.role != "user"), default=0)
    shown = "\n".join(message.content for message in prompt[last:])
    return shown.replace(sample.excerpt, "[the excerpt]").strip()


def _reason_in(reply: str) -> str:
    """The reason that a reply states, in DSPy's fields or in JSON; "" if it states none."""
    if in_fields := _REASON.search(reply):
        return in_fields[1].strip()
    in_json = _IN_JSON.search(reply)
    try:
        return json.loads(f'"{in_json[1]}"', strict=False).strip() if in_json else ""
    except ValueError:
        return ""


def failure(record: Record, sample: Sample) -> str:
    """The first of `KINDS` that applies to a wrong answer."""
    taken = turns(record, sample)
    named = {turn.argument.split(" ")[0] for turn in taken if _names_target(turn, sample)}
    if record.selection and record.selection.id in named:
        return CITING
    if any(is_target for turn in taken for _, is_target in turn.hits):
        return FOUND
    return NAMED if named else NEVER


def _names_target(turn: Turn, sample: Sample) -> bool:
    """Whether a text that was read contains a target's title, ignoring case and punctuation."""
    if turn.action != "read" or turn.error:
        return False
    text = f" {normalise(turn.seen)} "
    squeezed = text.replace(" ", "")  # the text of a PDF may lack spaces between words
    titles = [normalise(title) for title in sample.titles]
    return any(f" {t} " in text or (len(t) > 30 and t.replace(" ", "") in squeezed) for t in titles)
