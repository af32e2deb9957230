"""`holdfast report`: print or write tables and a figure of the runs in a folder, finished or not."""

import argparse
import json
from pathlib import Path

from .results.report import as_json, publish, status
from .results.runs import find
from .results.text_table import FORMATS


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "holdfast report",
        description=__doc__,
        epilog="example: holdfast report runs/demo --html page.html",
    )
    add = parser.add_argument
    add("folder", type=Path, help="folder of a run or of a suite")
    add("--status", action="store_true", help="print the state and progress of each run")
    add("--runs", action="store_true", help="print one line per run instead of means")
    formats = "format of the tables (default: text); csv has plain numbers and no figure"
    add("--format", choices=(*FORMATS, "csv"), default="text", help=formats)
    add("--json", action="store_true", help="print all results of runs and their means as JSON")
    page = "write one HTML page with tables, charts and data to FILE (needs holdfast[html])"
    add("--html", type=Path, metavar="FILE", help=page)
    return parser


def main(argv: list[str]) -> None:
    """Report the runs in a folder as text with a figure, as JSON, or as an HTML page."""
    args = parser().parse_args(argv)
    if args.status:
        print(status(args.folder))
    elif args.html is not None:
        from .results.report_page import write  # deferred: slow imports

        print(f"page: {write(args.folder, find(args.folder), args.html)}")
    elif args.json:
        print(json.dumps(as_json(find(args.folder)), indent=1))
    else:
        publish(args.folder, args.format, args.runs)
