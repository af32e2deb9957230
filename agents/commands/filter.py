"""`holdfast cite filter`: leave out what models answer from memory, in one of n tries."""

import argparse
from pathlib import Path

from ... import HoldfastError
from ..curation.closed_book import known_by_heart
from ..data import load, write
from ..matching import THRESHOLD
from ..results import read
from .options import data_options, dataset_of


def main(argv: list[str]) -> None:
    """Write the samples that none of the runs knows, and say how many are left out."""
    args = parser().parse_args(argv)
    known: dict[str, str] = {}
    for path in args.runs:
        header, records = read(path)
        if header["agent"].get("commands") != "none":
            raise HoldfastError(
                f"{path} is no run from memory: make one by `holdfast cite run --commands none "
                "--repeats 5`."
            )
        dataset = dataset_of(args, header, path)
        tries = args.tries or header["repeats"]
        for sample in known_by_heart(records, dataset, tries, args.threshold):
            known.setdefault(sample.id, header["agent"]["model"])
    whole = load(args.data or "mini-cite", skip_malformed=args.skip_malformed)
    asked = {sample.id for sample in dataset.samples}
    kept = [s for s in whole.samples if s.id in asked and s.id not in known]
    write(args.out, kept)
    for name in sorted(known):
        print(f"left out {name}: known to {known[name]}")
    print(f"{len(kept)} of {len(asked)} samples kept, {len(known)} left out; wrote {args.out}")
    print("CiteME left out 124 of 254, by five tries of GPT-4o.")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite filter",
        description=__doc__,
        epilog="example: holdfast cite filter runs/none.jsonl --out hard.csv",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="made with --commands none"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="CSV", help="in CiteME's columns"
    )
    parser.add_argument("--tries", type=int, metavar="N", help="answers that a sample needs (all)")
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD, help="of CiteME's matcher (0.8)"
    )
    data_options(parser, default=None)
    return parser
