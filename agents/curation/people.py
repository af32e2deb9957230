"""`holdfast cite people`: convert answers of people to a run, to be scored like an agent's.

In CiteME (section 2), 20 experts answered 5 of 100 samples each within two minutes: 69.7 % correct in
38.2 s on average; a second expert agreed in 71 % of cases, and one of the two was correct in 93 %.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..commands.options import CiteParser, chosen_dataset, new_name
from ..data import Dataset, Sample, read_table
from ..matching import THRESHOLD, official_match
from ..report.beside import published
from ..results import ResultFile, header_on
from ..schema import Action, Record
from ..stats import proportion

COLUMNS = ("sample", "annotator", "title", "seconds")


def answers(path: Path, dataset: Dataset) -> list[dict[str, str]]:
    """The rows of a CSV with `sample`, `annotator`, `title` ("" for none) and `seconds`.

    Raises:
        HoldfastError: if it is not such a file, or a row has an unknown sample, is repeated, or has no
            valid time.
    """
    rows = read_table(path, COLUMNS, "answers")
    known, seen = {s.id for s in dataset.samples}, set()
    for number, row in enumerate(rows, start=2):
        key = row["sample"], row["annotator"]
        problems = {
            f"there is no sample {key[0]!r} in {dataset.name}, {dataset.split}": key[0]
            not in known,
            f"{key[1]} answers {key[0]} twice": key in seen,
            f"seconds are {row['seconds']!r}": not is_seconds(row["seconds"]),
        }
        for problem in (text for text, wrong in problems.items() if wrong):
            raise HoldfastError(f"{path}, row {number}: {problem}. Correct or remove the row.")
        seen.add(key)
    return rows


def is_seconds(cell: str | None) -> bool:
    """Whether a cell is a number of seconds from 0 to 1e9."""
    try:
        return 0 <= float(cell or "") <= 1e9
    except ValueError:
        return False


def as_records(rows: Iterable[dict[str, str]]) -> list[Record]:
    """Each answer as a record; the repeats of a sample are its annotators, in order."""
    repeats: Counter[str] = Counter()
    records = []
    for row in rows:
        name, title = row["sample"], row["title"].strip()
        values = {"detail": f"by {row['annotator']}", "seconds": float(row["seconds"])}
        action = [Action(kind="action", step=1, action="guess")] if title else []
        records.append(Record.guessed(name, title, repeat=repeats[name], events=action, **values))
        repeats[name] += 1
    return records


def agreement(
    rows: Iterable[dict[str, str]], samples: Iterable[Sample], threshold: float = THRESHOLD
) -> dict[str, Any]:
    """Rates over all pairs of answers to a sample: same title, same verdict, at least one correct."""
    titles: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        titles[row["sample"]].append(row["title"].strip())
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


def main(argv: list[str]) -> None:
    """Write the answers as a result file, and print their agreement."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    rows = answers(args.answers, dataset)
    records = as_records(rows)
    agent = {"name": "people", "annotators": len({row["annotator"] for row in rows})}
    repeats = max(record.repeat for record in records) + 1
    with ResultFile(new_name(args.out), header_on(dataset, agent, repeats=repeats)) as file:
        for record in records:
            file.append(record)
    figures = agreement(rows, dataset.samples)
    if args.json:
        print(json.dumps(figures, indent=1, default=asdict))
        return
    print(f"{len(rows)} answers of {agent['annotators']} people; wrote {args.out}")
    if figures["pairs"]:
        print(f"pairs of answers to a sample: {figures['pairs']}")
        print(f"  the same title      {figures['same_title']}   (CiteME 71 %)")
        print(f"  both right or wrong {figures['same_verdict']}")
        print(f"  at least one right  {figures['at_least_one_right']}   (CiteME 93 %)")
    print(
        f"CiteME: {published()['human_percent']} % right, 38.2 s on average, at most two minutes."
    )
    print(f"Next: holdfast cite score {args.out}")


def parser() -> CiteParser:
    about = "Convert answers of people to a run, and measure their agreement."
    parser = CiteParser("people", about, "ANSWERS.csv --out runs/people.jsonl")
    columns = f"columns {', '.join(COLUMNS)}"
    parser.add("answers", type=Path, metavar="CSV", help=columns)
    parser.out()
    parser.data()
    parser.json()
    return parser
