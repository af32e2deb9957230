"""`holdfast cite score`: score result files, as text, JSON, a figure or a page."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from ..data import with_alternatives
from ..report.beside import beside_published
from ..report.figures import histogram
from ..report.runs_page import JudgedRun, runs_page, write_page
from ..report.summary import side_by_side, text
from ..results import read
from ..score import score
from .options import CiteParser, dataset_of, prices_of


def main(argv: list[str]) -> None:
    """Print the figures of each run; write the figure and the page if asked to."""
    args = parser().parse_args(argv)
    runs = []
    for path in args.runs:
        header, records = read(path)
        dataset = dataset_of(args, header, path)
        judging = {"repeats": header.repeats, "threshold": args.threshold}
        scores = score(
            records, dataset, **judging, usd_per_million=prices_of(args), cutoff=args.cutoff
        )
        if args.alternatives:
            wider = with_alternatives(dataset, args.alternatives)
            accepted = score(records, wider, **judging).accuracy
            scores = replace(scores, accuracy_with_alternatives=accepted)
        judged = (path.stem, header, dataset, records, scores, args.threshold, prices_of(args))
        runs.append(JudgedRun(*judged))
        if not args.json:
            print(text(header, scores, dataset))
            print(beside_published(header, dataset, scores), end="\n\n")
    if args.json:
        figures = {
            str(path): {
                "agent": run.header.agent.plain(),
                "data": run.dataset.name,
                **asdict(run.scores),
            }
            for path, run in zip(args.runs, runs, strict=True)
        }
        print(json.dumps(figures, indent=1))
    elif len(runs) > 1:
        print(side_by_side({run.name: run.scores for run in runs}))
    if args.picture:
        steps = {run.name: run.scores.actions_by_step_correct for run in runs}
        histogram(steps, args.picture, "Actions by step, correct answers")
        print(f"Wrote {args.picture}", file=sys.stderr)
    if args.html:
        write_page(args.html, runs_page(runs))


def parser() -> CiteParser:
    parser = CiteParser("score", __doc__, "runs/bm25.jsonl runs/rules.jsonl --html page.html")
    parser.add("runs", nargs="+", type=Path, metavar="RUN", help="result files")
    parser.data(default=None)
    parser.threshold()
    parser.prices()
    what = "plot the actions of correct answers by step"
    parser.add("--picture", type=Path, metavar="PNG", help=what)
    what = "also print the accuracy before and since this year of the source"
    parser.add("--cutoff", type=int, metavar="YEAR", help=what)
    what = "further accepted titles (columns id, title); also print the accuracy with them"
    parser.add("--alternatives", type=Path, metavar="CSV", help=what)
    parser.html()
    parser.json()
    return parser
