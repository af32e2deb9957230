"""`holdfast paper`: reproduce the tables and figures of the papers, each with one command."""

import argparse
import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...command_parser import Parser
from ...endings import sigterm_as_ctrl_c
from ...files import whole_file
from ..suites import suite
from . import store
from .claims import overview
from .experiment import SCALES, Experiment, chosen, experiments
from .page import command, page, verdict
from .places import PLACES
from .verdicts import FAILS, HOLDS, UNDECIDED, Verdict

DOCS = Path(__file__).parents[2] / "docs" / "papers"


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
    parser.add("--scale", choices=SCALES, default="embedded")
    parser.flag("--keep", "write the results into the package and docs of a clone")
    parser.add("--html", type=Path, metavar="FILE", help="also write one HTML page")
    parser.add(
        "--fit-on", nargs="+", metavar="PATTERN", help="for flips: settings to which f is fitted"
    )
    parser.add("--f", help="for flips: name of a published f, or file of f")
    for place in PLACES:
        parser.add(f"--{place.option}", metavar="PATH", help=f"{place.help}, for full scale")
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """List the experiments, show committed results, or compute new results and show them."""
    args = parser().parse_args(argv)
    several = chosen(args.names) if args.names else list(experiments().values())
    if args.json:
        print(json.dumps([entry(own, whole=bool(args.names)) for own in several], indent=1))
        return 0
    if not args.names:
        print(listing(several, shutil.get_terminal_size((100, 24)).columns))
        return 0
    if args.html is not None:
        from ..results import html_page

        html_page.check(args.html)
    if args.show:
        check_committed(several, args.scale)
        found = [(own, own.committed, picture_of(own)) for own in several]
        status = 0
    else:
        status, found = make(several, args)
    for own, results, picture in found:
        print(page(own, results, picture=str(picture) if picture.exists() else ""))
    if args.html is not None:
        from . import html

        print(f"page: {html.write(args.html, found)}")
    return status


Shown = list[tuple[Experiment, dict[str, Any], Path]]  # an experiment, its results and its figure


def make(several: list[Experiment], args: argparse.Namespace) -> tuple[int, Shown]:
    """Plan, run and tabulate; returns the exit status and the results."""
    from . import pipeline

    plans = [pipeline.plan(own, args) for own in several]
    pipeline.check(plans)
    if count := sum(len(plan.unfinished) for plan in plans):
        print(f"{count} runs.")
    try:
        with sigterm_as_ctrl_c():
            failed, elsewhere = pipeline.run(plans, args)
    except KeyboardInterrupt:  # the message of a run names --resume, which this command lacks
        raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
    found: Shown = []
    for plan in plans:
        results, folder = pipeline.tabulate(plan, args), folder_of(plan.own, args)
        found.append((plan.own, results, write(plan, results, folder)))
        if args.keep:
            commit(plan, results)
    if failed or elsewhere:
        print(f"failed runs: {failed}; runs in progress in other processes: {elsewhere}")
    return 1 if failed else 0, found


def entry(own: Experiment, whole: bool = False) -> dict[str, Any]:
    """An experiment as JSON; whole: with its committed numbers and the verdict on each claim."""
    found = {
        **{"name": own.name, "paper": own.paper, "shows": own.shows, "scales": own.scales},
        "suites": {scale: list(names) for scale, names in own.suites.items()},
        **{"done": bool(own.committed), "verdict": verdict(own), "remark": own.notes.get("", "")},
    }
    if whole:
        judged = own.verdicts(own.committed) if own.committed else []
        found |= {"claims": [claim(one) for one in judged], "results": own.committed or None}
    return found


def claim(found: Verdict) -> dict[str, Any]:
    """A verdict as JSON."""
    return {
        **{"id": found.claim.id, "says": found.claim.says, "group": found.claim.group},
        **{"state": found.state, "because": found.because},
        "parts": [part._asdict() for part in found.parts],
    }


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
    if lacking := [own for own in several if not own.committed or scale != "embedded"]:
        names = ", ".join(own.name for own in lacking)
        raise HoldfastError(
            f"There are no committed {scale} results of {names}. Run `{command(lacking[0], scale)}` to "
            "compute them, or pass --runs FOLDER to tabulate existing runs."
        )


def picture_of(own: Experiment) -> Path:
    """The committed picture, in a clone."""
    return DOCS / own.paper / f"{own.file}.png"


def folder_of(own: Experiment, args: argparse.Namespace) -> Path:
    """The folder for results, next to the runs."""
    suites_own = "runs/papers/" + own.paper + ("" if args.scale == "embedded" else "-full")
    given = args.runs[0] if args.runs and args.runs[0].is_dir() else args.out
    return Path(suites_own if given is None else given) / "results"


def write(plan: Any, results: dict[str, Any], folder: Path) -> Path:
    """Write the numbers, figure and page of an experiment; returns the path of the figure."""
    from .picture import draw_results

    own = plan.own
    store.write(folder / f"{own.file}.json", results)
    picture = folder / f"{own.file}.png"
    draw_results(own, results, plan.cells, picture)
    write_page(own, results, folder)
    return picture


def write_page(own: Experiment, results: dict[str, Any], folder: Path) -> None:
    """Write the page next to its figure."""
    with whole_file(folder / f"{own.file}.md") as partial:
        text = page(own, results, "markdown", f"{own.file}.png")
        partial.write_text(text, encoding="utf-8")


def commit(plan: Any, results: dict[str, Any]) -> None:
    """Write the numbers into the package, and page and figure into docs/papers."""
    own = plan.own
    if results["scale"] != "embedded" or results["missing"]:
        raise HoldfastError(
            f"{own.name}: --keep needs complete results at embedded scale. Rerun the same command without "
            "--keep to write the available results next to the runs."
        )
    write(plan, results, DOCS / own.paper)
    own.path.parent.mkdir(exist_ok=True)  # missing for a new paper
    (DOCS / own.paper / f"{own.file}.json").replace(own.path)
    vars(own).pop("committed", None)
    with whole_file(DOCS / "claims.md") as partial:
        partial.write_text(overview(experiments().values()), encoding="utf-8")
