"""`holdfast demo`: compare Tent, which collapses, with RDumb, which stays accurate; needs no downloads."""

import argparse
import shutil
import sys
from typing import Any

from .common_options import command_parser
from .suites import grid
from .suites.options import RunOptions, add_run_options, repeating
from .suites.suite import load_suite, run_and_report

FIRST = ("Source", "Tent", "RDumb")  # whose figure is drawn before the other methods run


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "demo --seeds 43 44 45")
    parser.add_argument(
        "--long",
        action="store_true",
        help="run a stream of 115,200 images in place of 25,600 (about five minutes)",
    )
    add_run_options(parser, out="runs/demo", seeds="43")
    return parser


def main(argv: list[str]) -> int:
    """Run the suite `demo` (benchmarks/configs/suites/demo.yaml)."""
    args = parser().parse_args(argv)
    words = ["holdfast", "demo", *(["--long"] if args.long else [])]
    options = RunOptions.parsed(args, command=repeating(*words, seeds=args.seeds))
    return run(load_suite("demo", options, "long" if args.long else "short"), options, args.long)


def run(suite: dict[str, Any], options: RunOptions, long: bool = False) -> int:
    """Run and report three methods, then all, and print what to do next."""
    first = suite | {"methods": {name: suite["methods"][name] for name in FIRST}}
    print(f"Accuracy over the stream of {', '.join(FIRST)}, then of the other methods:", flush=True)
    if not all(cell.finished for cell in grid.cells(first)):
        run_and_report(first, options)
    status = run_and_report(suite, options)
    print(next_commands(suite["out"], long))
    return status


def next_commands(folder: str, long: bool) -> str:
    """Three commands to go on with, as they can be typed in this shell."""
    program = "holdfast" if shutil.which("holdfast") else sys.argv[0]
    longer = ("paper", "the papers' tables with our results")
    if not long:
        longer = ("demo --long", "a stream of 115,200 images, about five minutes")
    commands = (
        (f"report {folder} --html demo.html", "these results as a page"),
        ("corruptions --backbone mynets.make --source photos", "your network and images (README)"),
        longer,
    )
    return "\n".join(["Next:", *(f"  {program} {words}   # {what}" for words, what in commands)])
