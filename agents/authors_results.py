"""`holdfast cite import`: results of CiteME's own code, of CiteGuard's, or logs of Inspect, as runs.

The first two are one JSON object {"metadata", "results"}; each result has `id`, `selected` (a paper or
null), `status`, `error`, `duration`, the hits of every search in `papers`, and the conversation in
`history`. What they say of themselves (`is_correct`) is judged anew.
"""

import argparse
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from .. import HoldfastError
from ..files import reason
from .commands.options import (
    chosen_dataset,
    command_parser,
    data_options,
    new_name,
    out_option,
)
from .data import Dataset
from .results import ResultFile, encodable, header_on
from .schema import TheirFile, checked
from .score import judge

# The statuses that the texts of errors stand for, the first that fits; an outage is none of the agent's.
ERRORS = {
    "action_limit": r"max actions",
    "context": r"context.{0,20}(length|window)|too many tokens|prompt is too long",
    "policy": r"content.?(policy|filter|management)|safety|usage policies",
    "bad_format": r"json|parse|parsing|validation error|unknown action",
    "provider_error": r"rate.?limit|timed? ?out|connection|overloaded|\b(429|50\d)\b",
}
Run = tuple[dict[str, Any], list[dict[str, Any]], str]


def contents(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The metadata and the results of a file; raises `HoldfastError` if it is none."""
    try:
        whole = checked(encodable(json.loads(path.read_text(encoding="utf-8"))), TheirFile)
    except (OSError, ValueError, RecursionError) as error:
        raise HoldfastError(
            f"{path} cannot be read as a result file of CiteME's code ({reason(error)}). Pass its JSON "
            "with metadata and results."
        ) from None
    return whole["metadata"], whole["results"]


def header(metadata: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
    """The header of the run, with what the file says of its settings."""
    actions = metadata.get("actions") or ""
    agent = {
        "name": f"imported {metadata.get('executor', 'agent')}",
        "model": metadata.get("model"),
        "temperature": metadata.get("temperature"),
        "commands": "search+read" if "read" in actions else "search" if actions else "none",
        "prompt": metadata.get("prompt_name"),
        "actions": actions,
        "their_split": metadata.get("dataset_split"),
    }
    budget = {"results": metadata.get("search_limit"), "max_actions": metadata.get("max_actions")}
    return header_on(dataset, agent, {"name": metadata.get("search_provider") or "none"}, budget)


def record(result: dict[str, Any]) -> dict[str, Any]:
    """A result as a sample's record."""
    selected = result.get("selected")
    status = status_of(result)
    if selected:
        status = "selected" if selected.get("paperId") else "guessed"
    return {
        "type": "sample",
        "sample": str(result["id"]),
        "repeat": 0,
        "status": status,
        "detail": result.get("error") or "",
        "selection": selected
        and {"id": selected.get("paperId"), "title": selected["title"], "ids": []},
        "seconds": float(result.get("duration") or 0.0),
        "events": events(result),
    }


def status_of(result: dict[str, Any]) -> str:
    """How a result without a selection ended; an error of no known kind is a missing answer."""
    error = result.get("error") or ""
    found = (status for status, known in ERRORS.items() if re.search(known, error, re.I))
    return next(found, "no_selection")


def events(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls and actions of a conversation; its tokens, counted once there, are at the first call."""
    happened: list[dict[str, Any]] = []
    keys: list[str] = []
    new: list[dict[str, str]] = []
    searches = iter(result.get("papers") or ())
    tokens = result.get("tokens") or {}
    usage = {f"{side}_tokens": tokens[side] for side in ("input", "output") if side in tokens}
    step = 0
    for message in result.get("history") or ():
        content = str(message["content"])
        if message["role"] == "assistant":
            step += 1
            call = {"kind": "lm", "step": step, "prompt": list(keys), "new_messages": new}
            call |= {"attempt": 1, "seconds": 0.0, "usage": usage, "usd": None, "reply": content}
            happened.append(call)
            new, usage = [], {}
            if act := action(content):
                happened.append({"kind": "action", "step": step, **act})
                if act["action"].startswith("search"):
                    happened[-1]["hits"] = [hit(paper) for paper in next(searches, [])]
                if act["action"] == "read":
                    happened[-1]["ok"] = True
        key = hashlib.sha256(f"{len(keys)}\n{content}".encode()).hexdigest()[:16]
        keys.append(key)
        new.append({"id": key, "role": message["role"], "content": content})
    if not happened and result.get("selected"):
        happened.append({"kind": "action", "step": 1, "action": "guess"})
    return happened


def action(reply: str) -> dict[str, Any] | None:
    """The action of a reply, None where it has none."""
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


def hit(paper: dict[str, Any]) -> dict[str, Any]:
    """A search hit, as an event has it."""
    named = {"id": paper.get("paperId"), "title": paper.get("title") or ""}
    return {**named, "year": paper.get("year"), "date": None, "ids": []}


def main(argv: list[str]) -> None:
    """Write the run, and say where its own verdicts differ from CiteME's matcher."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    new_name(args.out)
    take = from_inspect if args.results.suffix == ".eval" else from_authors
    header, records, said = take(args.results, dataset)
    if not records:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}. Pass its --data."
        )
    with ResultFile(args.out, header) as file:
        for record in records:
            file.append(record)
    print(f"{said}; wrote {args.out}")
    if differing := judged_otherwise(args.results, dataset, records):
        print(f"judged otherwise than there: {', '.join(differing)}")
    print(f"Next: holdfast cite score {args.out}")


def from_authors(path: Path, dataset: Dataset) -> Run:
    """The run of a result file of CiteME's code, and what to say of it."""
    metadata, results = contents(path)
    inside = [r for r in results if str(r["id"]) in {sample.id for sample in dataset.samples}]
    said = f"{len(inside)} of {len(results)} results are of {dataset.describe()}; theirs are of the split "
    said += repr(metadata.get("dataset_split"))
    return header(metadata, dataset), [record(result) for result in inside], said


def from_inspect(path: Path, dataset: Dataset) -> Run:
    """The run of a log of Inspect, and what to say of it."""
    try:
        from .inspect.reading import run_of
    except ImportError as error:
        raise HoldfastError(
            f"Inspect is not installed ({error}): pip install 'holdfast[inspect]'."
        ) from None
    header, records = run_of(path, dataset)
    return header, records, f"{len(records)} answers are of {dataset.describe()}"


def judged_otherwise(path: Path, dataset: Dataset, records: list[dict[str, Any]]) -> list[str]:
    """Samples of which a result file of CiteME's code states another verdict than its matcher's."""
    if path.suffix == ".eval":
        return []
    theirs = {str(r["id"]): bool(r.get("is_correct")) for r in contents(path)[1]}
    samples = {sample.id: sample for sample in dataset.samples}
    ours = {r["sample"]: judge(r, samples[r["sample"]])["official"] for r in records}
    return [name for name, right in ours.items() if right != theirs[name]]


def parser() -> argparse.ArgumentParser:
    parser = command_parser("import", __doc__, "RESULTS.json --out runs/theirs.jsonl")
    which = "JSON of theirs, or a log (.eval)"
    parser.add_argument("results", type=Path, metavar="FILE", help=which)
    out_option(parser)
    data_options(parser)
    return parser
