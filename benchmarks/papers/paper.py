"""`holdfast paper`: reproduce the tables and figures of the papers, each with one command."""

import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...command_parser import Parser
from ..suites import suite
from . import reproduce
from .experiment import EMBEDDED, EXPERIMENTS, SCALES, Experiment, chosen
from .page import command, page
from .verdicts import FAILS, HOLDS, UNDECIDED


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("paper", __doc__, "rdumb/T2.4 --show")
    parser.add(
        "names",
        nargs="*",
        help="such as rdumb/T2.4, or rdumb for a whole paper (default: list all)",
    )
    parser.flag("--show", "print the committed results without running anything")
    parser.flag("--json", "print the committed results as JSON without running anything")
    parser.add(
        "--runs",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="tabulate and judge the finished runs in these folders without running anything (for citeme: "
        "result files of `holdfast cite run`, and the CSV of their dataset)",
    )
    parser.add("--scale", choices=SCALES, default=EMBEDDED)
    parser.flag("--keep", "write the results into the package and docs of a clone")
    parser.add(
        "--fit-on", nargs="+", metavar="PATTERN", help="for flips: settings to which f is fitted"
    )
    parser.add("--f", help="for flips: name of a published f, or file of f")
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """List the experiments, show committed results, or compute new results and show them."""
    args = parser().parse_args(argv)
    several = chosen(args.names) if args.names else list(EXPERIMENTS.values())
    if args.json:
        print(json.dumps([entry(own, whole=bool(args.names)) for own in several], indent=1))
        return 0
    if not args.names:
        print(listing(several, shutil.get_terminal_size((100, 24)).columns))
        return 0
    if args.show:
        check_committed(several, args.scale)
        for own in several:
            picture = reproduce.DOCS / own.paper / f"{own.file}.png"
            print(page(own, own.committed, picture=str(picture) if picture.exists() else ""))
        return 0
    for own in several:
        reproduce.check_options(own, args)
    failed = 0 if args.runs else reproduce.run_missing(several, args)
    for own in several:
        results, cells = reproduce.tabulate(own, args)
        usual = f"runs/papers/{own.paper}" + ("" if args.scale == EMBEDDED else "-full")
        given = args.runs[0] if args.runs and args.runs[0].is_dir() else args.out
        picture = reproduce.write(own, results, cells, Path(given or usual, "results"))
        if args.keep:
            reproduce.keep(own, results, cells)
        print(page(own, results, picture=str(picture)))
    return 1 if failed else 0


def entry(own: Experiment, whole: bool = False) -> dict[str, Any]:
    """An experiment as JSON; whole: with its committed numbers and the verdict on each claim."""
    found = {
        **{"name": own.name, "paper": own.paper, "shows": own.shows, "scales": own.scales},
        "suites": {scale: list(names) for scale, names in own.suites.items()},
        **{"done": bool(own.committed), "verdict": own.verdict, "remark": own.notes.get("", "")},
    }
    if whole:
        judged = own.verdicts(own.committed) if own.committed else []
        claims = [verdict.as_json() for verdict in judged]
        found |= {"claims": claims, "results": own.committed or None}
    return found


def listing(several: list[Experiment], width: int) -> str:
    """The experiments and the verdicts on their claims, in lines of at most `width` characters."""
    rows = [("name", "shows", "claims")]
    for own in several:
        states = [v.state for v in own.verdicts(own.committed)] if own.committed else []
        counts = [states.count(state) for state in (HOLDS, FAILS, UNDECIDED)]
        counted = " ".join(f"{n:2}" for n in [*counts, len(states) - sum(counts)])
        rows.append((own.name, own.shows, counted if states else "  -"))
    first, last = (max(len(row[n]) for row in rows) for n in (0, 2))
    middle = max(20, width - first - last - 4)
    lines = []
    for name, shows, counted in rows:
        text = textwrap.wrap(shows, middle) or [""]
        lines.append(f"{name:{first}}  {text[0]:{middle}}  {counted}".rstrip())
        lines += [f"{'':{first}}  {more}" for more in text[1:]]
    legend = (
        "Claims: the numbers that hold, do not hold, are undecided, and cannot be judged, by the "
        "committed results at embedded scale. `holdfast paper NAME --show` prints these results; "
        "`holdfast paper NAME` repeats the runs."
    )
    return "\n".join([*lines, "", *textwrap.wrap(legend, width)])


def check_committed(several: list[Experiment], scale: str) -> None:
    """Refuse to show results that were not committed.

    Raises:
        HoldfastError: if there are none; states the commands that compute them.
    """
    if lacking := [own for own in several if not own.committed or scale != EMBEDDED]:
        names = ", ".join(own.name for own in lacking)
        raise HoldfastError(
            f"There are no committed {scale} results of {names}. Run `{command(lacking[0], scale)}` to "
            "compute them, or pass --runs FOLDER to tabulate existing runs."
        )
