"""Result files of CiteME's own code, and of what was made from it such as CiteGuard, as runs of ours.

One JSON object {"metadata", "results"}; each result has `id`, `selected` (a paper or null), `status`,
`error`, `duration`, the hits of every search in `papers`, and the conversation in `history`. What they
say of themselves (`is_correct`) is judged anew.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from .. import HoldfastError
from ..files import reason
from .data import Dataset
from .results import encodable
from .schema import TheirFile, checked

# The statuses that the texts of errors stand for, the first that fits; an outage is none of the agent's.
ERRORS = (
    ("action_limit", re.compile(r"max actions", re.I)),
    (
        "context",
        re.compile(r"context.{0,20}(length|window)|too many tokens|prompt is too long", re.I),
    ),
    ("policy", re.compile(r"content.?(policy|filter|management)|safety|usage policies", re.I)),
    ("bad_format", re.compile(r"json|parse|parsing|validation error|unknown action", re.I)),
    (
        "provider_error",
        re.compile(r"rate.?limit|timed? ?out|connection|overloaded|\b(429|50\d)\b", re.I),
    ),
)


def contents(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The metadata and the results of a file; raises `HoldfastError` if it is none."""
    try:
        whole = checked(encodable(json.loads(path.read_text(encoding="utf-8"))), TheirFile)
    except (OSError, ValueError, RecursionError) as error:
        raise HoldfastError(
            f"{path} cannot be read as a result file of CiteME's code ({reason(error)}): give its JSON "
            "with metadata and results."
        ) from None
    return whole["metadata"], whole["results"]


def header(metadata: dict[str, Any], dataset: Dataset, n: int) -> dict[str, Any]:
    """The header of the run, with what the file says of its settings."""
    actions = metadata.get("actions") or ""
    return {
        "dataset": {"name": dataset.name, "sha256": dataset.sha256, "split": dataset.split},
        "n": n,
        "agent": {
            "name": f"imported {metadata.get('executor', 'agent')}",
            "model": metadata.get("model"),
            "temperature": metadata.get("temperature"),
            "commands": "search+read" if "read" in actions else "search" if actions else "none",
            "prompt": metadata.get("prompt_name"),
            "actions": actions,
            "their_split": metadata.get("dataset_split"),
        },
        "provider": {"name": metadata.get("search_provider") or "none"},
        "budget": {
            "results": metadata.get("search_limit"),
            "max_actions": metadata.get("max_actions"),
        },
        "repeats": 1,
    }


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
    return next((status for status, known in ERRORS if known.search(error)), "no_selection")


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
            call = {
                "kind": "lm",
                "step": step,
                "prompt": list(keys),
                "new_messages": new,
                "attempt": 1,
            }
            happened.append({**call, "seconds": 0.0, "usage": usage, "usd": None, "reply": content})
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
    return {
        "id": paper.get("paperId"),
        "title": paper.get("title") or "",
        "year": paper.get("year"),
        "date": None,
        "ids": [],
    }
