"""`holdfast cite import`: convert results of CiteME's or CiteGuard's code, or Inspect logs, to runs.

Results of CiteME's and CiteGuard's code are a JSON object {"metadata", "results"}; its verdicts
(`is_correct`) are recomputed.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from .. import HoldfastError
from ..files import reason
from .commands.options import CiteParser, chosen_dataset, new_name
from .data import Dataset
from .results import ResultFile, encodable, header_on
from .schema import (
    Action,
    Call,
    Count,
    Event,
    Finite,
    Hit,
    Large,
    Message,
    Record,
    Seconds,
    Selection,
    Shape,
    Text,
    checked,
)
from .score import judge

# Patterns of error messages by status; the first match determines the status.
ERRORS = {
    "action_limit": r"max actions",
    "context": r"context.{0,20}(length|window)|too many tokens|prompt is too long",
    "policy": r"content.?(policy|filter|management)|safety|usage policies",
    "bad_format": r"json|parse|parsing|validation error|unknown action",
    "provider_error": r"rate.?limit|timed? ?out|connection|overloaded|\b(429|50\d)\b",
}
Run = tuple[dict[str, Any], list[Record], str]  # header, records, and a line about them


class TheirPaper(Shape):
    """A search hit or the answer."""

    paperId: Text = None
    title: str
    year: int | None = None


class TheirResult(Shape):
    """A sample; `papers` are the hits of each search, `history` is the conversation."""

    id: str | int
    selected: TheirPaper | None = None
    error: Text = None
    duration: Seconds | None = None
    tokens: dict[str, Large | None] | None = None
    papers: list[list[TheirPaper]] | None = None
    history: list[dict[str, Any]] | None = None
    is_correct: Any = None


class TheirSettings(Shape):
    """The settings of a run in CiteME's code."""

    executor: str = "agent"
    model: Text = None
    temperature: Finite | None = None
    actions: Text = None
    prompt_name: Text = None
    dataset_split: Text = None
    search_provider: Text = None
    search_limit: Count | None = None
    max_actions: Count | None = None


class TheirFile(Shape):
    """A result file of CiteME's code."""

    metadata: TheirSettings
    results: Annotated[list[TheirResult], Field(min_length=1)]


def contents(path: Path) -> TheirFile:
    """Read a result file of CiteME's code; raises `HoldfastError` if it is not one."""
    try:
        found: TheirFile = checked(
            encodable(json.loads(path.read_text(encoding="utf-8"))), TheirFile
        )
    except (OSError, ValueError, RecursionError) as error:
        raise HoldfastError(
            f"Cannot read {path} as a result file of CiteME's code ({reason(error)}). Pass its JSON with "
            "metadata and results."
        ) from None
    return found


def header(theirs: TheirSettings, dataset: Dataset) -> dict[str, Any]:
    """The settings of the run, as far as the file states them."""
    actions = theirs.actions or ""
    agent = {
        "name": f"imported {theirs.executor}",
        "model": theirs.model,
        "temperature": theirs.temperature,
        "commands": "search+read" if "read" in actions else "search" if actions else "none",
        "prompt": theirs.prompt_name,
        "actions": actions,
        "their_split": theirs.dataset_split,
    }
    budget = {"results": theirs.search_limit, "max_actions": theirs.max_actions}
    return header_on(dataset, agent, {"name": theirs.search_provider or "none"}, budget)


def record(result: TheirResult) -> Record:
    """Convert a result to a sample's record."""
    answer, error = result.selected, result.error or ""
    values = {"detail": error, "seconds": result.duration or 0.0, "events": events(result)}
    made = Record.guessed(str(result.id), answer.title if answer else "", **values)
    if answer and answer.paperId:
        made.status = "selected"
        made.selection = Selection(id=answer.paperId, title=answer.title, ids=[])
    elif not answer:
        made.status = status_of(error)
    return made


def status_of(error: str) -> str:
    """The status of a result without a selection; an unknown error counts as a missing answer."""
    found = (status for status, known in ERRORS.items() if re.search(known, error, re.I))
    return next(found, "no_selection")


def events(result: TheirResult) -> list[Event]:
    """The calls and actions of a conversation; the first call has all tokens, counted per sample."""
    happened: list[Event] = []
    keys: list[Text] = []
    new: list[Message] = []
    searches = iter(result.papers or ())
    usage = {f"{side}_tokens": count for side, count in (result.tokens or {}).items()}
    step = 0
    for message in result.history or ():
        role, content = str(message.get("role")), str(message.get("content"))
        if role == "assistant":
            step += 1
            sent: dict[str, Any] = {"prompt": list(keys), "new_messages": new, "usage": usage}
            timing: dict[str, Any] = {"attempt": 1, "seconds": 0.0, "usd": None}
            happened.append(Call(kind="lm", step=step, reply=content, **sent, **timing))
            new, usage = [], {}
            if values := action(content):
                taken = Action(kind="action", step=step, ok=values["action"] == "read", **values)
                if taken.action.startswith("search"):
                    taken.hits = [
                        Hit(id=p.paperId, title=p.title, year=p.year, date=None, ids=[])
                        for p in next(searches, [])
                    ]
                happened.append(taken)
        key = hashlib.sha256(f"{len(keys)}\n{content}".encode()).hexdigest()[:16]
        keys.append(key)
        new.append(Message(id=key, role=role, content=content))
    if not happened and result.selected:
        happened.append(Action(kind="action", step=1, action="guess"))
    return happened


def action(reply: str) -> dict[str, Any] | None:
    """The fields of the action in a reply; None if it has none."""
    try:
        content, _ = json.JSONDecoder(strict=False).raw_decode(reply[max(reply.find("{"), 0) :])
        acted = content["action"]
        name = str(acted["name"])
    except (ValueError, KeyError, TypeError):
        return None
    if name.startswith("search"):
        return {"action": name, "query": str(acted.get("query", ""))}
    rest = {key: value for key, value in acted.items() if key not in ("name", "paper_id")}
    part = ", ".join(str(value) for value in rest.values())
    return {"action": name, "paper": str(acted.get("paper_id", "")), "part": part}


def main(argv: list[str]) -> None:
    """Write the run, and list the samples whose stated verdict differs from CiteME's matcher."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    new_name(args.out)
    take = from_inspect if args.results.suffix == ".eval" else from_authors
    settings, records, said = take(args.results, dataset)
    if not records:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}. Pass its --data."
        )
    with ResultFile(args.out, settings) as file:
        for record in records:
            file.append(record)
    print(f"{said}; wrote {args.out}")
    if differing := judged_otherwise(args.results, dataset, records):
        print(f"verdicts that differ from the file's: {', '.join(differing)}")
    print(f"Next: holdfast cite score {args.out}")


def from_authors(path: Path, dataset: Dataset) -> Run:
    """Convert a result file of CiteME's code to a run."""
    theirs = contents(path)
    known = {sample.id for sample in dataset.samples}
    inside = [result for result in theirs.results if str(result.id) in known]
    said = (
        f"{len(inside)} of {len(theirs.results)} results are samples of {dataset.describe()}; the file "
        f"is for the split {theirs.metadata.dataset_split!r}"
    )
    return header(theirs.metadata, dataset), [record(result) for result in inside], said


def from_inspect(path: Path, dataset: Dataset) -> Run:
    """Convert a log of Inspect to a run."""
    try:
        from .inspect.reading import run_of
    except ImportError as error:
        raise HoldfastError(
            f"Inspect is not installed ({error}). Run: pip install 'holdfast[inspect]'."
        ) from None
    settings, records = run_of(path, dataset)
    return settings, records, f"{len(records)} answers for {dataset.describe()}"


def judged_otherwise(path: Path, dataset: Dataset, records: list[Record]) -> list[str]:
    """The samples whose verdict in the file differs from that of CiteME's matcher."""
    if path.suffix == ".eval":
        return []
    theirs = {str(result.id): bool(result.is_correct) for result in contents(path).results}
    samples = {sample.id: sample for sample in dataset.samples}
    ours = {r.sample: judge(r, samples[r.sample]).official for r in records}
    return [name for name, right in ours.items() if right != theirs[name]]


def parser() -> CiteParser:
    parser = CiteParser("import", __doc__, "RESULTS.json --out runs/theirs.jsonl")
    which = "JSON of CiteME's or CiteGuard's code, or an Inspect log (.eval)"
    parser.add("results", type=Path, metavar="FILE", help=which)
    parser.out()
    parser.data()
    return parser
