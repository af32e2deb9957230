"""`holdfast cite import`: result files of CiteME's code, {"metadata", "results"}, as runs."""

import json
import re
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from .. import HoldfastError
from . import cite_options as options
from .actions import SEARCHES
from .cite_options import say
from .data import Dataset, reading
from .records import Action, Call, Event, Hit, Message, Record, Selection, Status, settings_of

# Patterns of error messages by status; the first match determines the status.
_ERRORS: list[tuple[Status, str]] = [
    ("action_limit", r"max actions"),
    ("context", r"context.{0,20}(length|window)|too many tokens|prompt is too long"),
    ("policy", r"content.?(policy|filter|management)|safety|usage policies"),
    # a hit without a field, not a reply
    ("provider_error", r"validation errors? for PaperSearchResult"),
    ("bad_format", r"json|parse|parsing|validation error|unknown action"),
    ("provider_error", r"rate.?limit|timed? ?out|connection|overloaded|\b(429|50\d)\b"),
]


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_import)
    parser.add_argument("results", type=Path, help="JSON of CiteME's code")
    options.add_out(parser, "result file (.jsonl)")
    options.add_data(parser)


def _import(args: Namespace) -> None:
    dataset = options.read_dataset(args)
    settings, records = _imported(args.results, dataset)
    if not records:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}. Pass its --data."
        )
    options.write_run(args.out, settings, records)
    say(
        f"{len(records)} results are samples of {dataset.describe()}; the file is for the split "
        f"{settings['agent']['their_split']!r}; wrote {args.out}"
    )
    print(f"Next: holdfast cite score {args.out}")


def _imported(path: Path, dataset: Dataset) -> tuple[dict[str, Any], list[Record]]:
    """The settings of a result file of CiteME's code, and its records of samples of the dataset."""
    known = {sample.id for sample in dataset.samples}
    with reading(path, "a result file of CiteME's code", "its JSON with metadata and results"):
        content = json.loads(path.read_bytes())
        records = [record(result) for result in content["results"] if str(result["id"]) in known]
        return _settings(content["metadata"], dataset), records


def _settings(theirs: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
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
    facts = {"detail": error, "seconds": result.get("duration") or 0.0, "events": _events(result)}
    converted = Record.guessed(str(result["id"]), answer["title"] if answer else "", **facts)
    if answer and answer.get("paperId"):
        converted.status = "selected"
        converted.selection = Selection(id=answer["paperId"], title=answer["title"], ids=[])
    elif not answer:
        # An unknown error counts as a missing answer.
        fits = (status for status, form in _ERRORS if re.search(form, error, re.I))
        converted.status = next(fits, "no_selection")
    return converted


def _events(result: dict[str, Any]) -> list[Event]:
    """The calls and actions of a conversation; the first call has all tokens, counted per sample."""
    events: list[Event] = []
    history: list[Message] = []
    first_new = 0
    searches = iter(result.get("papers") or ())
    usage = {f"{side}_tokens": n for side, n in (result.get("tokens") or {}).items()}
    for number, message in enumerate(result.get("history") or ()):
        role, content = str(message.get("role")), str(message.get("content"))
        if role == "assistant":
            call = Call(
                kind="lm",
                step=sum(isinstance(event, Call) for event in events) + 1,
                prompt=[message.id for message in history],
                new_messages=history[first_new:],
                seconds=0.0,
                usage=usage,
                usd=None,
                reply=content,
            )
            events.append(call)
            first_new, usage = len(history), {}
            if action := _action(content, call.step):
                # CiteGuard's snippets are no papers in its files.
                if action.action in SEARCHES:
                    action.hits = [_hit(entry) for entry in next(searches, [])]
                events.append(action)
        history.append(Message(id=str(number), role=role, content=content))
    if not events and result.get("selected"):
        events.append(Action(kind="action", step=1, action="guess"))
    return events


def _hit(entry: dict[str, Any]) -> Hit:
    return Hit(id=entry.get("paperId"), title=entry["title"], year=entry.get("year"))


def _action(reply: str, step: int) -> Action | None:
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
