"""`holdfast report`: print or write tables and a figure of the runs in a folder, finished or not."""

import json
from pathlib import Path

from ..command_parser import Parser
from .results.report import as_json, publish
from .results.runs import find
from .results.text_table import FORMATS


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("report", __doc__, "runs/demo --html page.html")
    parser.add("folder", type=Path, help="folder of a run or of a suite")
    parser.flag("--runs", "print one line per run instead of means")
    parser.add(
        "--format",
        choices=(*FORMATS, "json"),
        default="text",
        help="format of the tables (default: text); csv and json have plain numbers and no figure",
    )
    parser.flag("--json", "the same as --format json")
    parser.add(
        "--html",
        type=Path,
        metavar="FILE",
        help="write one HTML page with tables, charts and data to FILE (needs holdfast[html])",
    )
    return parser


def main(argv: list[str]) -> int:
    """Report the runs in a folder as text with a figure, as JSON, or as an HTML page."""
    args = parser().parse_args(argv)
    if args.html is not None:
        from .papers.published import published_beside  # deferred: few need it
        from .results import html_page, report_page

        html_page.check(args.html)
        runs = find(args.folder)
        page = report_page.write(str(args.folder), runs, args.html, published_beside(runs))
        print(f"page: {page}")
    elif args.json or args.format == "json":
        print(json.dumps(as_json(find(args.folder)), indent=1))
    else:
        publish(args.folder, args.format, args.runs)
    return 0
