"""`holdfast cite data`: what a data set is made of, beside CiteME's tables 1 and 7 and figure 2."""

import argparse
import json
from pathlib import Path

from ..curation import quality
from ..data import MINI_CITE_CORPUS
from .options import chosen_dataset, data_options


def main(argv: list[str]) -> None:
    """Print years, labels and size; JSON with --json."""
    args = parser().parse_args(argv)
    dataset = chosen_dataset(args)
    labels = quality.labelled(args.labels) if args.labels else {}
    papers = sum(bool(line.strip()) for line in args.corpus.open(encoding="utf-8"))
    if args.json:
        years = [sample.year for sample in dataset.samples]
        shown = {"n": len(years), "years": years, "papers": papers, "labels": labels}
        print(json.dumps({**shown, "published": quality.published()}, indent=1))
        return
    print(dataset.describe())
    print("\nyear of the source (CiteME, figure 2)", *quality.years_lines(dataset), sep="\n")
    print("\nquality (CiteME, table 1)", *quality.quality_lines(labels), sep="\n")
    print("\nbenchmarks (CiteME, table 7)", *quality.comparison_lines(dataset, papers), sep="\n")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite data",
        description=__doc__,
        epilog="example: holdfast cite data --data DATASET.csv",
    )
    data_options(parser, split="all")
    parser.add_argument("--corpus", type=Path, default=MINI_CITE_CORPUS, metavar="JSONL")
    parser.add_argument(
        "--labels", type=Path, metavar="CSV", help="your own judgements: columns dataset, label"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
