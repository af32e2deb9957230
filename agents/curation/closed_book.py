"""`holdfast cite filter`: leave out what models answer from memory, in one of n tries."""

import argparse
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..commands.options import command_parser, data_options, dataset_of, threshold_option
from ..data import Dataset, Sample, load, write
from ..episode import RETRIED
from ..results import Key, read
from ..score import judge

Records = dict[Key, dict[str, Any]]


def known_by_heart(
    records: Records, dataset: Dataset, tries: int, threshold: float
) -> list[Sample]:
    """The samples that at least one of `tries` answers got right, by CiteME's matcher.

    Raises:
        HoldfastError: if a sample has fewer answers, as it might yet be known.
    """
    known = []
    for sample in dataset.samples:
        answers = [
            record
            for (name, _), record in records.items()
            if name == sample.id and record["status"] not in RETRIED
        ]
        if any(judge(record, sample, threshold)["official"] for record in answers):
            known.append(sample)
        elif len(answers) < tries:
            raise HoldfastError(
                f"{sample.id} has {len(answers)} of {tries} answers. Finish the run, or pass a smaller "
                "--tries."
            )
    return known


def main(argv: list[str]) -> None:
    """Write the samples that none of the runs knows, and say how many are left out."""
    args = parser().parse_args(argv)
    known: dict[str, str] = {}
    for path in args.runs:
        header, records = read(path)
        if header["agent"].get("commands") != "none":
            raise HoldfastError(
                f"{path} is not a run from memory. Make one by `holdfast cite run --commands none "
                "--repeats 5`."
            )
        dataset = dataset_of(args, header, path)
        tries = args.tries or header["repeats"]
        for sample in known_by_heart(records, dataset, tries, args.threshold):
            known.setdefault(sample.id, header["agent"]["model"])
    whole = load(args.data or "mini-cite", skip_malformed=args.skip_malformed)
    asked = {sample.id for sample in dataset.samples}
    left = [s for s in whole.samples if s.id in asked and s.id not in known]
    write(args.out, left)
    for name in sorted(known):
        print(f"left out {name}: known to {known[name]}")
    print(f"{len(left)} of {len(asked)} samples kept, {len(known)} left out; wrote {args.out}")
    print("CiteME left out 124 of 254 (section 2), by five tries of GPT-4o.")


def parser() -> argparse.ArgumentParser:
    parser = command_parser("filter", __doc__, "runs/none.jsonl --out hard.csv")
    made = "made with --commands none"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=made)
    columns = "in CiteME's columns"
    parser.add_argument("--out", type=Path, required=True, metavar="CSV", help=columns)
    parser.add_argument("--tries", type=int, metavar="N", help="answers that a sample needs (all)")
    threshold_option(parser)
    data_options(parser, default=None)
    return parser
