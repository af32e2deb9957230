"""`holdfast report`: print or write tables and a figure of the runs in a folder, finished or not."""

import argparse
import json
from pathlib import Path

from .results.report import as_json, publish
from .results.run_state import STATES, Progress, fault, folders, state
from .results.runs import find
from .results.text_table import FORMATS, aligned


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "holdfast report",
        description=__doc__,
        epilog="example: holdfast report runs/demo --html page.html",
    )
    parser.add_argument("folder", type=Path, help="folder of a run or of a suite")
    parser.add_argument(
        "--status", action="store_true", help="print the state and progress of each run"
    )
    parser.add_argument(
        "--runs", action="store_true", help="print one line per run instead of means"
    )
    parser.add_argument(
        "--format",
        choices=(*FORMATS, "json"),
        default="text",
        help="format of the tables (default: text); csv and json have plain numbers and no figure",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write one HTML page with tables, charts and data to FILE (needs holdfast[html])",
    )
    return parser


def main(argv: list[str]) -> int:
    """Report the runs in a folder as text with a figure, as JSON, or as an HTML page."""
    args = parser().parse_args(argv)
    if args.status:
        print(status(args.folder))
    elif args.html is not None:
        from .papers.comparison import published_beside  # deferred: few need it
        from .results import report_page

        report_page.check(args.html)
        runs = find(args.folder)
        page = report_page.write(str(args.folder), runs, args.html, published_beside(runs))
        print(f"page: {page}")
    elif args.json or args.format == "json":
        print(json.dumps(as_json(find(args.folder)), indent=1))
    else:
        publish(args.folder, args.format, args.runs)
    return 0


def status(folder: Path) -> str:
    """One line per run with its progress, owner or error, then the number of runs in each state."""
    lines = [status_line(path, path.relative_to(folder).as_posix()) for path in folders(folder)]
    if not lines:
        return f"{folder} contains no runs yet"
    count = {name: sum(line[1] == name for line in lines) for name in STATES}
    total = ", ".join(f"{n} {name}" for name, n in count.items() if n)
    return f"{aligned(lines)}\n{len(lines)} runs: {total}"


def status_line(folder: Path, name: str) -> tuple[str, ...]:
    """A run's row in the table of states."""
    found = state(folder)
    accuracy = images = speed = left = ""
    if not fault(folder) and (progress := Progress(folder)).images:
        accuracy, images, speed, left = progress.texts()
    if found.name != "running":
        speed = left = ""
    return (name, found.name, accuracy, images, speed, left, found.note)
