"""`holdfast report`: print or write tables and a figure of the runs in a folder, finished or not."""

import argparse
from pathlib import Path

from .. import HoldfastError
from .common_options import command_parser
from .results.deadline import Limit
from .results.report import publish, status
from .results.runs import find
from .results.text_table import FORMATS


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "report runs/demo --html page.html")
    add = parser.add_argument
    add("folder", type=Path, help="folder of a run or of a suite")
    add("--status", action="store_true", help="print the state and progress of each run")
    table = parser.add_mutually_exclusive_group()
    table.add_argument(
        "--runs", action="store_true", help="print one line per run instead of means"
    )
    pairs = "print the difference between every two methods, paired by run, with its 95 %% interval"
    table.add_argument("--pairs", action="store_true", help=pairs)
    formats = "format of the table (default: text); csv and json have plain numbers and no figure"
    add("--format", choices=FORMATS, default="text", help=formats)
    everything = "the same as --format json: all results of runs and their means"
    add("--json", action="store_const", const="json", dest="format", help=everything)
    columns = "columns of the table by their names in --format csv (default: all with a value)"
    add("--columns", nargs="+", default=(), metavar="NAME", help=columns)
    late = (
        "score late predictions (TEMPORA's continuous utility) and draw it over response times: the "
        "time that a prediction may take, in the source model's own time (1.5) or absolute (50ms)"
    )
    add("--deadline", metavar="RHO", help=late)
    figure = "draw the figure to FILE, .png, .pdf or .svg (default: accuracy.png in the folder)"
    add("--figure", type=Path, metavar="FILE", help=figure)
    page = "write one HTML page with tables, charts and data to FILE (needs holdfast[html])"
    add("--html", type=Path, metavar="FILE", help=page)
    return parser


def main(argv: list[str]) -> int:
    """Report the runs in a folder as text with a figure, as JSON, or as an HTML page; 1 without runs."""
    args = parser().parse_args(argv)
    if args.columns and (args.pairs or args.format == "json"):
        raise HoldfastError(
            "--columns chooses columns of means and of --runs as text, Markdown, LaTeX or CSV. Omit it."
        )
    runs = find(args.folder)
    if args.status:
        print(status(args.folder, runs))
    elif args.html is not None:
        from .results.report_page import write_page  # deferred: slow imports

        print(f"page: {write_page(args.folder, runs, args.html)}")
    else:
        table = "runs" if args.runs else "pairs" if args.pairs else "means"
        limit = None if args.deadline is None else Limit.parse(args.deadline)
        publish(args.folder, runs, args.format, table, args.columns, limit, args.figure)
    return int(not runs)
