"""`holdfast cite score`: judge result files."""

import argparse
import json
import sys
from pathlib import Path

from ..alternatives import with_alternatives
from ..report.figures import histogram
from ..report.page import JudgedRun, runs_page, write_page
from ..report.published import beside_published
from ..report.text import side_by_side, text
from ..results import read
from ..score import score
from .options import data_options, dataset_of


def main(argv: list[str]) -> None:
    """Print the figures of each run, and draw its actions by step where --picture asks for it."""
    args = parser().parse_args(argv)
    prices = tuple(args.usd_per_million) if args.usd_per_million else None
    runs = []
    for path in args.runs:
        header, records = read(path)
        dataset = dataset_of(args, header, path)
        scores = score(
            records,
            dataset,
            repeats=header["repeats"],
            threshold=args.threshold,
            usd_per_million=prices,
            cutoff=args.cutoff,
        )
        if args.alternatives:
            wider = with_alternatives(dataset, args.alternatives)
            scores["accuracy_with_alternatives"] = score(
                records, wider, repeats=header["repeats"], threshold=args.threshold
            )["accuracy"]
        runs.append(JudgedRun(path.stem, header, dataset, records, scores, args.threshold, prices))
        if not args.json:
            print(text(header, scores, dataset))
            print(beside_published(header, dataset, scores), end="\n\n")
    if args.json:
        figures = {
            str(path): {"agent": run.header["agent"], "data": run.dataset.name, **run.scores}
            for path, run in zip(args.runs, runs, strict=True)
        }
        print(json.dumps(figures, indent=1))
    elif len(runs) > 1:
        print(side_by_side({run.name: run.scores for run in runs}))
    if args.picture:
        steps = {run.name: run.scores["actions_by_step_correct"] for run in runs}
        histogram(steps, args.picture, "Actions by step, correct answers")
        print(f"Wrote {args.picture}", file=sys.stderr)
    if args.html:
        write_page(args.html, runs_page(runs))


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite score",
        description=__doc__,
        epilog="example: holdfast cite score runs/bm25.jsonl runs/rules.jsonl --html page.html",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    data_options(parser, default=None)
    parser.add_argument("--threshold", type=float, default=0.8, help="of CiteME's matcher (0.8)")
    parser.add_argument(
        "--usd-per-million", nargs=2, type=float, metavar=("IN", "OUT"), help="price of tokens"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="PNG", help="draw the actions of correct answers by step"
    )
    parser.add_argument(
        "--cutoff", type=int, metavar="YEAR", help="accuracy before and since a year of the source"
    )
    parser.add_argument(
        "--alternatives",
        type=Path,
        metavar="CSV",
        help="further valid citations (id, title): accuracy with them is printed besides",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a self-contained page")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
