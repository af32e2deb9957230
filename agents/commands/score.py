"""`holdfast cite score`: judge result files."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..published import beside_published
from ..report import histogram, text
from ..results import read
from ..score import score
from .options import data_options, dataset_of


def main(argv: list[str]) -> None:
    """Print the figures of each run, and draw its actions by step where --picture asks for it."""
    args = parser().parse_args(argv)
    figures: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    for path in args.runs:
        header, records = read(path)
        dataset = dataset_of(args, header, path)
        scores = score(
            records,
            dataset,
            repeats=header["repeats"],
            threshold=args.threshold,
            usd_per_million=tuple(args.usd_per_million) if args.usd_per_million else None,
        )
        figures[str(path)] = {"agent": header["agent"], "data": dataset.name, **scores}
        steps[path.stem] = scores["actions_by_step"]
        if not args.json:
            print(text(header, scores, dataset))
            print(beside_published(header, dataset, scores), end="\n\n")
    if args.json:
        print(json.dumps(figures, indent=1))
    if args.picture:
        histogram(steps, args.picture, "Actions by step")
        print(f"Wrote {args.picture}", file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="holdfast cite score", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    data_options(parser, default=None)
    parser.add_argument("--threshold", type=float, default=0.8, help="of CiteME's matcher (0.8)")
    parser.add_argument(
        "--usd-per-million", nargs=2, type=float, metavar=("IN", "OUT"), help="price of tokens"
    )
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw the action histogram")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
