"""Made-up samples of CiteME, the files that they are read from, and records of answers."""

import csv
import hashlib

from holdfast.agents.data import COLUMNS
from holdfast.agents.records import Record


def row(**changes):
    given = {"excerpt": "As [CITATION] show.", "year": "2023", "split": "test"}
    return dict.fromkeys(COLUMNS, "x") | given | changes


def write(path, rows, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def title(k):
    """A title that resembles no other sample's."""
    return f"case{k:04d} {hashlib.sha256(str(k).encode()).hexdigest()}"


def write_dataset(path, n):
    """Samples s0000, ..., the k-th of which is about "casek" and wants the paper `title(k)`."""
    common = {"source_paper_title": "A source", "year": "2020", "split": "test"}
    rows = []
    for k in range(n):
        text = f"As case{k:04d} shows [CITATION], things hold."
        rows.append({"id": f"s{k:04d}", "excerpt": text, "target_paper_title": title(k), **common})
    return write(path, rows)


def record(sample, status="selected", title=None, hits=(), repeat=0, **more):
    """An agent's answer to a sample: by default one call of its model and one search."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    shown = [{"id": None, "title": t} for t in hits]
    call = {"kind": "lm", "step": 1, "prompt": [], "new_messages": []}
    content = {"type": "sample", "sample": sample, "repeat": repeat, "status": status}
    content |= {"detail": "", "seconds": 2.0}
    content["selection"] = {"id": "p", "title": title, "ids": []} if title else None
    content["events"] = [
        {**call, "usage": usage, "usd": None, "seconds": 0.5},
        {"kind": "action", "step": 1, "action": "search_relevance", "hits": shown},
    ]
    content |= more
    return Record.model_validate(content)
