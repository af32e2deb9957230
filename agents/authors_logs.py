"""Convert result files of CiteME's code, a JSON object {"metadata", "results"}, to runs."""

import json
import re
from pathlib import Path
from typing import Any

from .data import Dataset, reading
from .records import Action, Call, Event, Hit, Message, Record, Selection, settings_of

# Patterns of error messages by status; the first match determines the status.
ERRORS = {
    "action_limit": r"max actions",
    "context": r"context.{0,20}(length|window)|too many tokens|prompt is too long",
    "policy": r"content.?(policy|filter|management)|safety|usage policies",
    "bad_format": r"json|parse|parsing|validation error|unknown action",
    "provider_error": r"rate.?limit|timed? ?out|connection|overloaded|\b(429|50\d)\b",
}


def imported(path: Path, dataset: Dataset) -> tuple[dict[str, Any], list[Record]]:
    """The settings of a result file of CiteME's code, and its records of samples of the dataset.

    Raises:
        HoldfastError: if it is not such a file.
    """
    known = {sample.id for sample in dataset.samples}
    with reading(path, "a result file of CiteME's code", "its JSON with metadata and results"):
        content = json.loads(path.read_bytes())
        records = [record(result) for result in content["results"] if str(result["id"]) in known]
        return settings(content["metadata"], dataset), records


def settings(theirs: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
    """The settings of the run, as far as the file states them."""
    actions = theirs.get("actions") or ""
    agent = {
        "name": f"imported {theirs.get('executor', 'agent')}",
        "model": theirs.get("model"),
        "temperature": theirs.get("temperature"),
        "commands": "search+read" if "read" in actions else "search" if actions else "none",
        "their_split": theirs.get("dataset_split"),
    }
    budget = {"results": theirs.get("search_limit"), "max_actions": theirs.get("max_actions")}
    return settings_of(dataset, agent, {"name": theirs.get("search_provider") or "none"}, budget)


def record(result: dict[str, Any]) -> Record:
    """Convert a result to a sample's record."""
    answer, error = result.get("selected"), result.get("error") or ""
    seconds = result.get("duration") or 0.0
    values = {"detail": error, "seconds": seconds, "events": events(result)}
    made = Record.guessed(str(result["id"]), answer["title"] if answer else "", **values)
    if answer and answer.get("paperId"):
        made.status = "selected"
        made.selection = Selection(id=answer["paperId"], title=answer["title"], ids=[])
    elif not answer:
        # An unknown error counts as a missing answer.
        fits = (status for status, known in ERRORS.items() if re.search(known, error, re.I))
        made.status = next(fits, "no_selection")
    return made


def events(result: dict[str, Any]) -> list[Event]:
    """The calls and actions of a conversation; the first call has all tokens, counted per sample."""
    happened: list[Event] = []
    history: list[Message] = []
    first_new = step = 0
    searches = iter(result.get("papers") or ())
    usage = {f"{side}_tokens": n for side, n in (result.get("tokens") or {}).items()}
    for number, message in enumerate(result.get("history") or ()):
        role, content = str(message.get("role")), str(message.get("content"))
        if role == "assistant":
            step += 1
            sent: dict[str, Any] = {"prompt": [m.id for m in history], "usage": usage}
            sent |= {"new_messages": history[first_new:], "seconds": 0.0, "usd": None}
            happened.append(Call(kind="lm", step=step, reply=content, **sent))
            first_new, usage = len(history), {}
            if taken := action(content, step):
                if taken.action.startswith("search"):
                    hits: list[dict[str, Any]] = next(searches, [])
                    taken.hits = [
                        Hit(id=h.get("paperId"), title=h["title"], year=h.get("year")) for h in hits
                    ]
                happened.append(taken)
        history.append(Message(id=str(number), role=role, content=content))
    if not happened and result.get("selected"):
        happened.append(Action(kind="action", step=1, action="guess"))
    return happened


def action(reply: str, step: int) -> Action | None:
    """The action in a reply; None if it has none."""
    try:
        content, _ = json.JSONDecoder(strict=False).raw_decode(reply[max(reply.find("{"), 0) :])
        name, argument = str(content["action"]["name"]), content["action"]
    except (ValueError, KeyError, TypeError):
        return None
    query, paper = str(argument.get("query", "")), str(argument.get("paper_id", ""))
    return Action(
        kind="action", step=step, action=name, query=query, paper=paper, ok=name == "read"
    )
