"""`holdfast cite show`: a sample's trajectory as a person reads it, in the terminal or as HTML."""

import argparse
from pathlib import Path

from ... import HoldfastError
from ..report.show import text
from ..results import read
from .options import command_parser, data_options, dataset_of


def main(argv: list[str]) -> None:
    """Print what the agent thought, did and saw, or write it as a page."""
    args = parser().parse_args(argv)
    header, records = read(args.run)
    samples = {s.id: s for s in dataset_of(args, header, args.run).samples}
    record = records.get((args.sample, args.repeat))
    if record is None or args.sample not in samples:
        there = ", ".join(sorted({sample for sample, _ in records if sample in samples})[:20])
        raise HoldfastError(
            f"{args.run} has no sample {args.sample!r}, repeat {args.repeat}. Choose one of {there}."
        )
    if args.html:
        from ..report.runs_page import trajectory_page, write_page

        write_page(args.html, trajectory_page(header, record, samples[args.sample]))
        return
    print(text(record, samples[args.sample], args.full))


def parser() -> argparse.ArgumentParser:
    parser = command_parser("show", __doc__, "runs/bm25.jsonl 3")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("sample", metavar="SAMPLE", help="its id")
    parser.add_argument("--repeat", type=int, default=0, metavar="K", help="from 0 (0)")
    parser.add_argument("--full", action="store_true", help="all hits, all of the texts")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a self-contained page")
    data_options(parser, default=None)
    return parser
