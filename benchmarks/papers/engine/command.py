"""`holdfast paper`: reproduce the tables and figures of the papers, each with one command."""

import argparse
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from textwrap import wrap
from typing import Any

from .... import HoldfastError
from ....files import whole_file
from ...common_options import command_parser
from ...results.run_protocol import sentence
from ...results.runs import grouped
from ...results.text_table import formatted
from ...suites.options import RunOptions, add_data_options, add_run_options
from ...suites.running_time import foretold
from ...suites.suite import check_data_folders
from .experiment import EXPERIMENTS, UNKNOWN, Experiment, experiments_called, why_unreliable
from .page import claims_page, experiment_page, front_page, section
from .pieces import joined
from .sources import EMBEDDED, FULL, SCALES, Evidence, Request, name_of
from .table import Table
from .verdicts import STATES, counted

DOCS = Path(__file__).parents[3] / "docs" / "papers"
WIDTH = 100  # of the list
COUNTS = 37  # width of its columns of counts
LEGEND = """
The columns count claims by verdict, from the committed results at embedded scale; other: premise
not met, or not judged. `holdfast paper NAME --show` prints these results; `holdfast paper NAME`
repeats the runs."""
# Lists of numbers only, and lists that end with a number, such as the rows of a table.
IN_ONE_LINE = (r"\[[][\s\d.,e+-]+\]", r"\[\n[^][{}]*?[\dlNy]\n\s+\]")


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
    figure = "draw the figure of the one table that is named to this file (.png, .pdf or .svg)"
    add("--figure", type=Path, metavar="FILE", help=figure)
    add("--scale", choices=SCALES, default=EMBEDDED)
    add("--keep", action="store_true", help="write the results into the clone's package and docs")
    add_run_options(parser, out="runs/papers/PAPER", seeds="those of the table's suites")
    add_data_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """List the experiments, show committed results, or compute new results and show them."""
    args = parser().parse_args(argv)
    chosen = experiments_called(args.names) if args.names else list(EXPERIMENTS.values())
    if args.json:
        entries = [entry(experiment, args.scale, bool(args.names)) for experiment in chosen]
        print(json.dumps(entries, indent=1))
        return 0
    if not args.names:
        print(listing(chosen))
        return 0
    chosen = _available(chosen, args)
    if args.figure and len(chosen) > 1:
        raise HoldfastError(f"--figure draws one table; {len(chosen)} are named. Name one.")
    if args.show:
        for experiment in chosen:
            if args.figure:
                table = Table.read(experiment.committed[args.scale])
                draw_figure(experiment, table, experiment.source.cells(args.scale), args.figure)
            picture = DOCS / experiment.paper / experiment.file_name(args.scale, ".png")
            shown = str(picture) if picture.exists() else ""
            results = experiment.committed[args.scale]
            print(section(experiment, results, shown, "text"), end="\n\n")
        return 0
    requests = {e.name: request_for(e, args) for e in chosen}
    failed = 0
    if args.runs is None:
        foretell(chosen, requests)
        failed = sum(e.source.execute(requests[e.name], e.name) for e in chosen)
    for experiment in chosen:
        request = requests[experiment.name]
        try:
            evidence = experiment.source.load(request)
            results = tabulate(experiment, evidence, request)
            if args.keep:
                names = [n for c in evidence.cells for n in (c.label, c.names["method"])]
                results = joined(experiment, results, names)
            results["absent"] = absent(evidence, results)
        except HoldfastError as error:
            if len(chosen) == 1:
                raise
            print(error, end="\n\n")
            failed += 1
            continue
        picture = write_results(experiment, results, evidence, _results_folder(experiment, request))
        if args.figure:
            draw_figure(experiment, Table.read(results), evidence.cells, args.figure)
        if args.keep:
            keep(experiment, results, picture)
        print(section(experiment, results, str(picture), "text"), end="\n\n")
    return 1 if failed else 0


def foretell(experiments: Sequence[Experiment], requests: Mapping[str, Request]) -> None:
    """Say how many runs there are to make, and how long they will take; their data are checked first."""
    # Several tables may be made of the same runs.
    todo = {
        cell.folder: cell for e in experiments for cell in e.source.unfinished(requests[e.name])
    }
    if not todo:
        return
    cells, request = [*todo.values()], requests[experiments[0].name]
    check_data_folders(cells, request.data)
    print(f"{len(cells)} runs in all.", flush=True)
    print(f"About {foretold(cells, request.jobs or 1)} on this machine.", flush=True)


def request_for(experiment: Experiment, args: argparse.Namespace) -> Request:
    """The options of the command for an experiment."""
    options = RunOptions.parsed(args, command=experiment.command(args.scale))
    return Request(**vars(options), scale=args.scale, runs=args.runs)


def entry(experiment: Experiment, scale: str, whole: bool = False) -> dict[str, Any]:
    """An experiment as JSON; whole: with its committed numbers and the verdict on each claim."""
    verdicts = {
        s: counted([verdict.state for verdict in experiment.judged(s)])
        for s in experiment.committed
    }
    suites = experiment.source.suites
    facts = {
        "name": experiment.name,
        "paper": experiment.paper,
        "shows": experiment.title,
        "scales": list(suites),
        "suites": {name: list(names) for name, names in suites.items()},
        "done": EMBEDDED in experiment.committed,
        "verdict": verdicts.get(EMBEDDED, ""),
        "remark": experiment.note(),
        "verdicts": verdicts,
    }
    if whole:
        facts["claims"] = [verdict.as_json() for verdict in experiment.judged(scale)]
        facts["results"] = experiment.committed.get(scale)
    return facts


def listing(experiments: Sequence[Experiment]) -> str:
    """The experiments with the number of their claims by verdict, in at most 100 columns."""
    rows = [
        ["", "", "does not", "", "", ""],
        ["name", "holds", "hold", "undecided", "other", "shows"],
    ]
    left = WIDTH - COUNTS - max(len(experiment.name) for experiment in experiments)
    for experiment in experiments:
        counts = Counter(verdict.state for verdict in experiment.judged())
        totals = [counts.pop(state, 0) for state in STATES[:3]] + [counts.total()]
        first, *others = wrap(experiment.title, left)
        rows.append([experiment.name, *(str(total or "") for total in totals), first])
        rows += [["", "", "", "", "", line] for line in others]
    return f"{formatted(rows)}\n{LEGEND}"


def _available(experiments: Sequence[Experiment], args: argparse.Namespace) -> list[Experiment]:
    """Those that have the scale and, to be shown, committed results; says of a paper's others why not.

    Raises HoldfastError if none has, or an experiment that was named itself has not.
    """
    lacking = {e.name: reason for e in experiments if (reason := _lack(e, args))}
    named = [name for name in lacking if name in args.names]
    if lacking and (named or len(lacking) == len(experiments)):
        raise HoldfastError(lacking[named[0] if named else next(iter(lacking))])
    for reason in lacking.values():
        print(reason, file=sys.stderr)
    return [e for e in experiments if e.name not in lacking]


def _lack(experiment: Experiment, args: argparse.Namespace) -> str:
    """Why an experiment cannot be shown, made or kept at the scale; "" if it can."""
    scales, scale = experiment.source.suites, args.scale
    if scales and not args.runs and scale not in scales:
        return f"{experiment.name} has no {scale} scale. Choose from {', '.join(scales)}."
    if args.keep and args.runs and scales.get(scale):
        return (
            f"{experiment.name}: folders do not say which of the table's runs they lack, so --keep cannot "
            "join them to the committed ones. Pass --runs without a folder, and --out where the runs are "
            "elsewhere."
        )
    if not args.show or scale in experiment.committed:
        return ""
    return (
        f"There are no committed {scale} results of {experiment.name}. Run "
        f"`{experiment.command(scale)}` to compute them, or pass --runs FOLDER to tabulate existing runs."
    )


def tabulate(experiment: Experiment, evidence: Evidence, request: Request) -> dict[str, Any]:
    """The results of what is finished, in the format of committed results.

    Raises:
        HoldfastError: if nothing is finished.
    """
    from ...suites.comparison import differences  # deferred: imports torch

    scale, source = request.scale, experiment.source
    table = experiment(evidence.data, **(experiment.at_full if scale == FULL else {}))
    if table.frame.empty:
        folders = ", ".join(map(str, evidence.searched))
        raise HoldfastError(
            f"{experiment.name} has no finished runs in {folders}. Run `{experiment.command(scale)}` to "
            "execute them."
        )
    paper_cells = source.cells(FULL) if FULL in source.suites else []
    made = [name_of(cell) for cell in evidence.cells if cell.finished]
    protocols = ((run.setting, run.label, run.protocol) for run in evidence.runs)
    return {
        "name": experiment.name,
        "scale": scale,
        "provenance": merged_provenance(evidence.provenance),
        "protocol": sentence(protocols) if evidence.runs else "",
        "differences": differences(evidence.cells, paper_cells, source.compared),
        "missing": [*evidence.missing],
        "made": made if evidence.missing else [],
        "table": table.as_json(),
    }


def absent(evidence: Evidence, results: Mapping[str, Any]) -> list[str]:
    """The streams, or the groups of models, of which these results lack all runs."""
    if not results["missing"] or not evidence.cells:
        return list(results["missing"])
    streams = grouped(evidence.cells, lambda cell: str(cell.names["stream"]))
    made = {*results["made"]}
    return [name for name, same in streams.items() if made.isdisjoint(map(name_of, same))]


def merged_provenance(origins: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Code and date, the threads, processors and weights of runs of these origins, or of this process.

    The commits are those of the runs and of this process, which tabulates them.
    """
    from ....callbacks.provenance import commit, installed, processor  # deferred: imports torch

    def of_runs(key: str, otherwise: object) -> str:
        values = {str(origin.get(key, UNKNOWN)) for origin in origins} or {str(otherwise)}
        # A processor's name has commas.
        return "; ".join(sorted(values))

    commits = {str(origin.get("commit")) for origin in origins} | {str(commit())}
    facts = {
        "version": installed("holdfast"),
        "commit": ", ".join(sorted(commits)),
        "date": date.today().isoformat(),
        "threads": of_runs("threads", os.cpu_count()),
        "processor": of_runs("device", processor()),
        "weights": sorted({o["weights"] for o in origins if o.get("weights")}) or "none",
    }
    # Of data that do not come with Holdfast: number, crops, hash of the names.
    images = {f"{o['source']}, {o['content']}" for o in origins if "content" in o}
    return facts | ({"images": sorted(images)} if images else {})


def _results_folder(experiment: Experiment, request: Request) -> Path:
    """Where results are written: beside the runs."""
    if request.runs and request.runs[0].is_dir():
        return request.runs[0] / "results"
    ending = "" if request.scale == EMBEDDED else f"-{request.scale}"
    return Path(request.out or f"runs/papers/{experiment.paper}{ending}", "results")


def write_results(
    experiment: Experiment, results: dict[str, Any], evidence: Evidence, folder: Path
) -> Path:
    """Write the numbers, figure and section of an experiment; returns the path of the figure."""
    picture = folder / f"{experiment.file}.png"
    draw_figure(experiment, Table.read(results), evidence.cells, picture)
    _write_text(folder / f"{experiment.file}.json", text_of(results))
    _write_text(folder / f"{experiment.file}.md", f"{section(experiment, results, picture.name)}\n")
    return picture


def draw_figure(experiment: Experiment, table: Table, cells: Sequence[Any], path: Path) -> None:
    """Draw the figure of an experiment in the format of the path's suffix."""
    from .picture import draw  # deferred: imports matplotlib

    if experiment.picture is None:
        draw(table, path)
    else:
        experiment.picture(table, cells, path)


def _write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def text_of(results: dict[str, Any]) -> str:
    """Results as JSON with one row of the table per line, so that differences are readable."""
    text = json.dumps(results, indent=1, ensure_ascii=False)
    for pattern in IN_ONE_LINE:
        text = re.sub(pattern, _joined, text)
    return f"{text}\n"


def _joined(match: re.Match[str]) -> str:
    return re.sub(r"\n\s*", "", re.sub(r",\n\s*", ", ", match[0]))


def keep(experiment: Experiment, results: dict[str, Any], picture: Path) -> None:
    """Write the numbers into the package, and figure and pages into docs/papers.

    Also where runs are missing, which may take days: the claims about them are not judged.

    Raises:
        HoldfastError: of full scale, and where results that decide claims have runs that are missing here.
    """
    scale = results["scale"]
    if scale == FULL:
        raise HoldfastError(
            f"{experiment.name}: --keep is for embedded scale and photos. Rerun the command without it."
        )
    before = experiment.committed.get(scale, {})
    complete = before.get("missing") == [] and not experiment.unreliable(before)
    if results["missing"] and complete:
        raise HoldfastError(
            f"{experiment.name}: --keep would replace complete results by some that lack runs. Rerun the "
            "same command without --keep to write these next to the runs."
        )
    if reason := why_unreliable(results["provenance"]):
        raise HoldfastError(
            f"{experiment.name}: --keep cannot write results that were {reason}. Commit the code, delete "
            "the runs that were made before, and rerun the same command."
        )
    path = experiment.path(scale)
    copy = DOCS / experiment.paper / experiment.file_name(scale, ".png")
    for file in (path, copy):
        file.parent.mkdir(parents=True, exist_ok=True)
    _write_text(path, text_of(results))
    shutil.copy(picture, copy)
    vars(experiment).pop("committed", None)
    write_pages([experiment])


def write_pages(experiments: Sequence[Experiment]) -> None:
    """Write the pages of these experiments, the front pages of their papers, and that of all claims."""
    for experiment in experiments:
        page = DOCS / experiment.paper / f"{experiment.file}.md"
        _write_text(page, experiment_page(experiment))
    for paper in dict.fromkeys(experiment.paper for experiment in experiments):
        _write_text(DOCS / f"{paper}.md", front_page(paper, EXPERIMENTS.values()))
    _write_text(DOCS / "claims.md", claims_page(EXPERIMENTS.values()))
