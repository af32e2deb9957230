"""Answers of people, as a run: judged, shown and compared like an agent's (CiteME, section 2).

There 20 experts answered 5 of 100 samples each within two minutes: 69.7 % right in 38.2 s on average; a
second expert agreed in 71 % of cases, and one of the two was right in 93 %.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..data import Dataset, Sample
from ..matching import THRESHOLD, official_match
from ..rates import proportion
from ..tables import read_table

COLUMNS = ("sample", "annotator", "title", "seconds")


def answers(path: Path, dataset: Dataset) -> list[dict[str, str]]:
    """The rows of a CSV with `sample`, `annotator`, `title` ("" for none) and `seconds`.

    Raises:
        HoldfastError: if the file is none, or a row is of no sample, no number or given twice.
    """
    rows = read_table(path, COLUMNS, "answers")
    known, seen = {s.id for s in dataset.samples}, set()
    for number, row in enumerate(rows, start=2):
        key = row["sample"], row["annotator"]
        problem = None
        if row["sample"] not in known:
            problem = f"there is no sample {row['sample']!r} in {dataset.name}, {dataset.split}"
        elif key in seen:
            problem = f"{row['annotator']} answers {row['sample']} twice"
        elif not is_seconds(row["seconds"]):
            problem = f"seconds are {row['seconds']!r}"
        if problem:
            raise HoldfastError(f"{path}, row {number}: {problem}: correct or remove the row.")
        seen.add(key)
    return rows


def is_seconds(cell: str | None) -> bool:
    """Whether a cell holds a time of 0 s to some decades."""
    try:
        return 0 <= float(cell or "") <= 1e9
    except ValueError:
        return False


def as_records(rows: Iterable[dict[str, str]]) -> list[dict[str, Any]]:
    """Each answer as a sample's record; the repeats of a sample are its annotators, in order."""
    repeats: dict[str, int] = defaultdict(int)
    records = []
    for row in rows:
        title = (row["title"] or "").strip()
        action = {"kind": "action", "step": 1, "action": "guess"}
        records.append(
            {
                "type": "sample",
                "sample": row["sample"],
                "repeat": repeats[row["sample"]],
                "status": "guessed" if title else "no_selection",
                "detail": f"by {row['annotator']}",
                "selection": {"id": None, "title": title, "ids": []} if title else None,
                "seconds": float(row["seconds"]),
                "events": [action] if title else [],
            }
        )
        repeats[row["sample"]] += 1
    return records


def agreement(
    rows: Iterable[dict[str, str]], samples: Iterable[Sample], threshold: float = THRESHOLD
) -> dict[str, Any]:
    """Over all pairs of answers to one sample: the same title, the same verdict, one of both right."""
    titles: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        titles[row["sample"]].append((row["title"] or "").strip())
    pairs = same = verdict = either = 0
    for sample in samples:
        for a, b in combinations(titles[sample.id], 2):
            right = [bool(t) and official_match(t, sample.titles, threshold) for t in (a, b)]
            pairs += 1
            same += all(right) or bool(a and b and official_match(a, [b], threshold))
            verdict += right[0] == right[1]
            either += any(right)
    return {
        "pairs": pairs,
        "same_title": proportion(same, pairs),
        "same_verdict": proportion(verdict, pairs),
        "at_least_one_right": proportion(either, pairs),
    }
