"""`holdfast paper`: reproduce the tables and figures of the papers, each with one command."""

import argparse
import json
from collections import Counter
from pathlib import Path
from textwrap import shorten
from typing import Any

from ... import HoldfastError
from ..common_options import command_parser
from ..results.text_table import formatted
from ..suites import suite
from . import reproduce
from .experiment import EMBEDDED, EXPERIMENTS, SCALES, Experiment, chosen
from .page import section
from .verdicts import STATES, counted

WIDTH = 100  # of the list
COUNTS = 37  # width of its columns of counts
LEGEND = """
The columns count claims by verdict, from the committed results at embedded scale; other: premise
not met, or not judged. `holdfast paper NAME --show` prints these results; `holdfast paper NAME`
repeats the runs."""


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "paper rdumb/T2.4 --show")
    add = parser.add_argument
    add("names", nargs="*", help="such as rdumb/T2.4, or rdumb for all of it (default: list all)")
    add("--show", action="store_true", help="print the committed results without running anything")
    add("--json", action="store_true", help="the same as JSON")
    add(
        "--runs",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="tabulate and judge finished runs without running anything: those in these folders (for "
        "citeme: result files of `holdfast cite run`, and the CSV of their dataset), or without a folder "
        "what the suites have so far",
    )
    add("--scale", choices=SCALES, default=EMBEDDED)
    add("--keep", action="store_true", help="write the results into the clone's package and docs")
    suite.add_options(parser)
    suite.add_data(parser)
    return parser


def main(argv: list[str]) -> int:
    """List the experiments, show committed results, or compute new results and show them."""
    args = parser().parse_args(argv)
    several = chosen(args.names) if args.names else list(EXPERIMENTS.values())
    if args.json:
        print(json.dumps([entry(own, args.scale, bool(args.names)) for own in several], indent=1))
        return 0
    if not args.names:
        print(listing(several))
        return 0
    check(several, args.scale, args.show, bool(args.runs))
    if args.show:
        for own in several:
            picture = reproduce.DOCS / own.paper / own.named(args.scale, ".png")
            shown = str(picture) if picture.exists() else ""
            print(section(own, own.kept[args.scale], shown, "text"), end="\n\n")
        return 0
    failed = 0 if args.runs is not None else sum(reproduce.execute(own, args) for own in several)
    for own in several:
        results, cells = reproduce.tabulate(own, args)
        usual = f"runs/papers/{own.paper}" + ("" if args.scale == EMBEDDED else f"-{args.scale}")
        given = args.runs[0] if args.runs and args.runs[0].is_dir() else args.out
        picture = reproduce.write(own, results, cells, Path(given or usual, "results"))
        if args.keep:
            reproduce.keep(own, results, picture)
        print(section(own, results, str(picture), "text"), end="\n\n")
    return 1 if failed else 0


def entry(own: Experiment, scale: str, whole: bool = False) -> dict[str, Any]:
    """An experiment as JSON; whole: with its committed numbers and the verdict on each claim."""
    verdicts = {s: counted([v.state for v in own.judged_at(s)]) for s in own.kept}
    found = {
        **{"name": own.name, "paper": own.paper, "shows": own.shows, "scales": list(own.suites)},
        "suites": {scale: list(names) for scale, names in own.suites.items()},
        **{"done": bool(own.committed), "verdict": verdicts.get(EMBEDDED, "")},
        **{"remark": own.note(), "verdicts": verdicts},
    }
    if whole:
        claims = [verdict.as_json() for verdict in own.judged_at(scale)]
        found |= {"claims": claims, "results": own.kept.get(scale)}
    return found


def listing(several: list[Experiment]) -> str:
    """The experiments with the number of their claims by verdict, in at most 100 columns."""
    rows = [
        ["", "", "does not", "", "", ""],
        ["name", "holds", "hold", "undecided", "other", "shows"],
    ]
    left = WIDTH - COUNTS - max(len(own.name) for own in several)
    for own in several:
        counts = Counter(verdict.state for verdict in own.judged)
        numbers = [counts.pop(state, 0) for state in STATES[:3]] + [counts.total()]
        shows = shorten(own.shows, left, placeholder=" ...")
        rows.append([own.name, *(str(number or "") for number in numbers), shows])
    return f"{formatted(rows)}\n{LEGEND}"


def check(several: list[Experiment], scale: str, show: bool, given: bool) -> None:
    """Refuse a scale that an experiment does not have, and to show results that were not committed."""
    for own in several:
        if own.suites and not given and scale not in own.suites:
            known = ", ".join(own.suites)
            raise HoldfastError(f"{own.name} has no {scale} scale. Choose from {known}.")
        if show and scale not in own.kept:
            raise HoldfastError(
                f"There are no committed {scale} results of {own.name}. Run `{own.command(scale)}` to "
                "compute them, or pass --runs FOLDER to tabulate existing runs."
            )
