"""`holdfast cite people`: answers of people as a run, and how far they agree."""

import argparse
import json
from pathlib import Path

from ... import HoldfastError
from ..curation import people
from ..report.published import published
from ..report.text import percent
from ..results import ResultFile
from .options import chosen_dataset, data_options


def main(argv: list[str]) -> None:
    """Write the answers as a result file for score, show and compare; print their agreement."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    rows = people.answers(args.answers, dataset)
    if args.out.exists():
        raise HoldfastError(f"{args.out} exists: remove it, or give --out another name.")
    records = people.as_records(rows)
    header = {
        "dataset": {"name": dataset.name, "sha256": dataset.sha256, "split": dataset.split},
        "n": len(dataset.samples),
        "agent": {"name": "people", "annotators": len({row["annotator"] for row in rows})},
        "provider": {"name": "none"},
        "budget": {},
        "repeats": max(record["repeat"] for record in records) + 1,
    }
    with ResultFile(args.out, header) as file:
        for record in records:
            file.append(record)
    figures = people.agreement(rows, dataset.samples)
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    print(f"{len(rows)} answers of {header['agent']['annotators']} people; wrote {args.out}")
    if figures["pairs"]:
        print(f"pairs of answers to a sample: {figures['pairs']}")
        print(f"  the same title      {percent(figures['same_title'])}   (CiteME 71 %)")
        print(f"  both right or wrong {percent(figures['same_verdict'])}")
        print(f"  at least one right  {percent(figures['at_least_one_right'])}   (CiteME 93 %)")
    print(
        f"CiteME: {published()['human_percent']} % right, 38.2 s on average, two minutes at most."
    )
    print(f"Next: holdfast cite score {args.out}")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite people",
        description=__doc__,
        epilog="example: holdfast cite people ANSWERS.csv --out runs/people.jsonl",
    )
    parser.add_argument(
        "answers", type=Path, metavar="CSV", help="columns sample, annotator, title, seconds"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="result file (.jsonl)"
    )
    data_options(parser)
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
