"""`holdfast report`: table and figure of the runs in a folder, finished or not."""

import argparse
import json
from pathlib import Path
from typing import Any

from ... import printable
from ...files import reason
from ...run_folder import begun
from . import per_run, summary
from .aggregate import Group, groups
from .runs import Run, find, with_results
from .summary import points
from .text import FORMATS, formatted

MOST = 9  # settings whose details are printed
NOTE = "accuracy in percent, mean ± sd over runs; ↓: below the source model's mean"


def publish(folder: Path, form: str = "text", each_run: bool = False) -> None:
    """Print the tables and what they lack, draw the figure, and say where things are."""
    everything = find(folder)
    runs = with_results(everything)
    if not runs:
        print_missing(everything)
        print(f"{folder} holds no runs with results yet")
        return
    if form == "csv":
        print(formatted(per_run.table(runs) if each_run else summary.raw(groups(everything)), form))
        return
    if each_run:
        print(formatted(per_run.table(runs), form))
    else:
        print_means(groups(everything), form)
    print_missing(everything)
    print_not_finite(runs)
    from .figure import draw

    try:
        print(f"figure: {draw(everything, folder / 'accuracy.png')}")
    except OSError as error:
        print(f"no figure: {folder} cannot be written ({reason(error)})")


def print_means(found: list[Group], form: str) -> None:
    """Methods by settings and what else is known of each; of many settings the first alone."""
    settings = len({group.setting for group in found})
    if settings > 1:
        print(formatted(summary.matrix(found), form), end="\n\n")
    if settings <= MOST:
        print(formatted(summary.details(found), form))
    print(f"({NOTE})")
    if settings > MOST:
        print(f"(intervals, collapses and costs in each of the {settings} settings: --format csv)")


def print_missing(runs: list[Run]) -> None:
    """A line for each run that is not finished, which no mean contains."""
    for run in runs:
        state = run.state
        if state.name == "finished":
            continue
        named = f"{run.stream}, seed {run.seed}, {run.label}" if run.method else str(run.folder)
        if state.name == "failed":
            print(
                printable(
                    f"failed: {named}: {state.note}" if run.method else f"failed: {state.note}"
                )
            )
        elif state.name == "waiting":
            print(printable(f"missing: {named}"))
        else:
            seen = "begins"
            if begun(run.folder):
                seen = f"{points(run.accuracy)} % after {run.images:,} images"
            print(printable(f"not in the means: {named} (unfinished): {seen}"))


def print_not_finite(runs: list[Run]) -> None:
    """A line for each run with steps that were undone."""
    for run in runs:
        if run.not_finite:
            named = f"{run.stream}, seed {run.seed}, {run.label}" if run.stream else str(run.folder)
            print(printable(f"not finite: {named}: {run.not_finite} steps were undone"))


def failure(run: Run) -> dict[str, Any]:
    """A run that failed, with its error in one line."""
    known = {"method": run.label or None, "stream": run.stream or None, "seed": run.seed}
    return {**known, "folder": str(run.folder), "error": run.state.note}


def as_json(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every column of every run with results, of their means, and what failed."""
    everything = find(folder)
    runs = with_results(everything)
    return {
        "runs": [per_run.facts(run) for run in runs],
        "failed": [failure(run) for run in everything if run.state.name == "failed"],
        "summary": [summary.facts(group) for group in groups(everything)],
    }


def main(argv: list[str]) -> int:
    """Report on a folder as text and figure, or as JSON."""
    parser = argparse.ArgumentParser(prog="holdfast report", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a run or of a suite")
    parser.add_argument("--runs", action="store_true", help="a line for each run, no means")
    parser.add_argument(
        "--format",
        choices=(*FORMATS, "json"),
        default="text",
        help="of the tables; csv and json have plain numbers and draw nothing",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    args = parser.parse_args(argv)
    if args.json or args.format == "json":
        print(json.dumps(as_json(args.folder), indent=1))
    else:
        publish(args.folder, args.format, args.runs)
    return 0
