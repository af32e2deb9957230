"""Compute an experiment: execute what is missing, tabulate and judge it, and write its section."""

import argparse
import json
import os
import re
import shutil
from collections.abc import Container, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ...files import jsonable, read_json, whole_file
from ...run_folder import CELL, PROVENANCE
from ..results.run_protocol import sentence
from ..results.run_state import state
from ..results.runs import Run, collect, set_beside
from ..suites import suite
from ..suites.cell import Cell
from .experiment import EXPERIMENTS, FULL, UNKNOWN, Experiment, why_unreliable
from .page import changes, overview, page, section
from .table import Table, written

DOCS = Path(__file__).parents[2] / "docs" / "papers"
# Lists of numbers only, and lists that end with a number, such as the rows of a table.
IN_ONE_LINE = (r"\[[][\s\d.,e+-]+\]", r"\[\n[^][{}]*?[\dlNy]\n\s+\]")


class Work(NamedTuple):
    """What an experiment's function is given, its runs and their cells, and what is unfinished."""

    given: Any
    runs: Sequence[Run] = ()
    cells: Sequence[Cell] = ()
    missing: Sequence[str] = ()


def execute(own: Experiment, args: argparse.Namespace) -> int:
    """Execute missing runs or train missing ensembles; returns the number of failed runs."""
    if own.takes == "ensembles":
        from ..train import ensemble  # deferred: imports torch

        if jobs := [job for job in ensemble_jobs(own, args) if job.missing]:
            ensemble.train(jobs, args.jobs or 1)
    if own.takes != "runs":
        return 0
    cells = [cell for cell in cells_of(own, args) if suite.wanted(cell, args)]
    if missing := sum(not cell.finished for cell in cells):
        print(f"{own.name}: {missing} runs.")
    args.command = own.command(args.scale)
    try:
        failed, elsewhere = suite.run_cells(cells, args)
    except KeyboardInterrupt:
        # The message of a run names --resume, which this command lacks.
        raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
    if failed or elsewhere:
        print(f"failed runs: {failed}; runs in progress in other processes: {elsewhere}")
    return failed


def cells_of(own: Experiment, args: argparse.Namespace) -> list[Cell]:
    """The cells of an experiment with the folders and the seeds of the command."""
    replaced = {k: v for k in ("out", "seeds") if (v := getattr(args, k)) is not None}
    return own.cells(args.scale, suite.folders(args), **replaced)


def ensemble_jobs(own: Experiment, args: argparse.Namespace) -> list[Any]:
    """The jobs that train an experiment's ensembles, in `args.out` or the folders of their files."""
    from ..train import ensemble  # deferred: imports torch

    found = []
    for name in own.suites[args.scale]:
        config = ensemble.load(name) | ({} if args.seeds is None else {"seeds": args.seeds})
        config |= {} if args.out is None else {"out": str(Path(args.out, name))}
        found += ensemble.jobs(config)
    return found


def work(own: Experiment, args: argparse.Namespace) -> Work:
    """What there is of an experiment: in the folders of the command, or where its suites write."""
    if own.takes == "files" or (own.takes == "ensembles" and args.runs):
        return Work(args.runs or [])
    if own.takes == "ensembles":
        jobs = ensemble_jobs(own, args)
        missing = [str(job.folder) for job in jobs if job.missing]
        return Work([*dict.fromkeys(job.folder.parents[2] for job in jobs)], missing=missing)
    if own.takes == "scale":
        return Work(args.scale)
    if own.takes == "runs" and args.runs:
        # The finished runs with the names of the experiment, or all if none of these adapts.
        runs = [run for run in collect(*args.runs) if run.finished]
        named = [run for run in runs if own.matches(vars(run))]
        runs = named if any(run.adapts for run in named) else runs
        return Work(runs, runs, [cell for run in runs if (cell := cell_of(run))])
    cells = cells_of(own, args)
    if own.takes == "cells":
        return Work(cells, cells=cells)
    runs = runs_of(cells)
    return Work(runs, runs, cells, [unfinished(cell) for cell in cells if not cell.finished])


def runs_of(cells: list[Cell]) -> list[Run]:
    """The finished runs of cells, with the suite's factors, linked to their source models."""
    runs = []
    for cell in (cell for cell in cells if cell.finished):
        runs.append(Run.load(cell.folder))
        # Regardless of the version that wrote the folder.
        runs[-1].factors = dict(cell.factors)
    set_beside(runs)
    return runs


def cell_of(run: Run) -> Cell | None:
    """The cell of a suite that this run belongs to; None for a run without a suite."""
    facts = read_json(run.folder / CELL)
    if not {"data", "model"} <= facts.get("config", {}).keys():
        return None
    return Cell(facts["names"], Path(run.folder), facts["config"], facts.get("factors", {}))


def unfinished(cell: Cell) -> str:
    """The names of a run, and the error if it has failed."""
    found = state(cell.folder)
    return name_of(cell) + (f": {found.note}" if found.name == "failed" else "")


def name_of(cell: Cell) -> str:
    """The names of a run as a table has them: `Run.place` and `Run.label`."""
    return f"{cell.names['stream']}, seed {cell.names['seed']}, {cell.label}"


def run_of(row: Sequence[Any], names: Container[str]) -> str:
    """The name of a run by a row whose curve is its label, or its method if x is its override."""
    exact = f"{row[3]}, {row[1]}-{written(row[2])}"
    return exact if exact in names else f"{row[3]}, {row[1]}"


def named_by(table: Mapping[str, Any], cells: Sequence[Cell], every: Container[str]) -> set[str]:
    """The runs that the rows of a table belong to; none if some belong to several, or to no run.

    A method that no row names has no rows, such as the source model where the others are set beside it.
    """
    curves = {row[1] for row in table["rows"]}
    named = {run_of(row, every) for row in table["rows"]}
    shown = [cell for cell in cells if curves & {cell.names["method"], cell.label}]
    finished = {name_of(cell) for cell in shown if cell.finished}
    alone = finished <= named and all(name in every for name in named) and not table.get("notes")
    return named if alone else set()


def configured(own: Experiment, args: argparse.Namespace) -> dict[str, str]:
    """By the name of each run of an experiment, a key of its configuration, without the user's folders."""
    from ...callbacks.provenance import digest  # deferred: imports torch

    if own.takes != "runs" or args.runs:
        return {}
    # Also of seeds that --seeds leaves out, which may be kept.
    cells = own.cells(args.scale) + (own.cells(args.scale, seeds=args.seeds) if args.seeds else [])
    return {name_of(cell): digest(jsonable(cell.config)) for cell in cells}


def with_kept(
    results: dict[str, Any], kept: Mapping[str, Any], every: Mapping[str, str]
) -> dict[str, Any]:
    """Results, and the rows of kept ones of those runs that are missing here.

    Only of runs with the same configuration and images, in tables whose rows name their runs (`run_of`).

    every: the key of each run's configuration (`configured`).
    """
    facts = kept.get("provenance", {})
    lacking = every.keys() - results["runs"].keys()
    same = {name for name in lacking if kept.get("runs", {}).get(name) == every[name]}
    if not same or facts.get("images") != results["provenance"].get("images"):
        return results
    of_kept = [row for row in kept["table"]["rows"] if run_of(row, every) in same]
    taken = {run_of(row, every) for row in of_kept}
    # Panels, curves and columns stay in the kept order, which is that of their first rows.
    places = reversed([*enumerate(kept["table"]["rows"])])
    order = {tuple(row[:3]): place for place, row in places}
    rows = [*of_kept, *results["table"]["rows"]]
    rows.sort(key=lambda row: order.get(tuple(row[:3]), len(order)))
    return results | {
        "provenance": of_both(facts, results["provenance"]),
        "missing": [own for own in results["missing"] if own.partition(": ")[0] not in taken],
        "runs": results["runs"] | {name: every[name] for name in sorted(taken)},
        "table": kept["table"] | results["table"] | {"rows": rows},
    }


def of_both(kept: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of results of which a part was kept before."""
    both = dict(ours)
    for key, between in (("commit", ", "), ("threads", "; "), ("processor", "; ")):
        both[key] = between.join(sorted({*kept[key].split(between), *ours[key].split(between)}))
    if "none" not in (kept["weights"], ours["weights"]):
        both["weights"] = sorted({*kept["weights"], *ours["weights"]})
    return both


def tabulate(own: Experiment, args: argparse.Namespace) -> tuple[dict[str, Any], list[Cell]]:
    """The results of what is finished, in the format of committed results, and the cells of the runs.

    Raises:
        HoldfastError: if nothing is finished.
    """
    from .comparison import differences  # deferred: imports torch

    there = work(own, args)
    table = Table.of(own(there.given, **(own.at_full if args.scale == FULL else {})))
    if table.frame.empty:
        places = args.runs or {cell.folder.parents[1] for cell in there.cells} or there.given
        raise HoldfastError(
            f"{own.name} has no finished runs in {', '.join(map(str, places))}. Run "
            f"`{own.command(args.scale)}` to execute them."
        )
    theirs = own.cells(FULL) if FULL in own.suites else []
    parts = () if own.takes == "runs" else ("data",)
    protocols = ((run.setting, run.label, run.protocol) for run in there.runs)
    results = {
        "name": own.name,
        "scale": args.scale,
        "provenance": provenance(origins(own, there)),
        "protocol": sentence(protocols) if there.runs else "",
        "differences": differences(there.cells, theirs, parts),
        "missing": [*there.missing],
        "table": table.as_json(),
    }
    every = configured(own, args) if args.keep else {}
    if named := named_by(results["table"], there.cells, every):
        results["runs"] = {name: every[name] for name in sorted(named)}
        results = with_kept(results, own.kept.get(args.scale, {}), every)
    return results, [*there.cells]


def origins(own: Experiment, there: Work) -> list[dict[str, Any]]:
    """Where the numbers come from: the provenance of each run, or of each group of members."""
    if own.takes != "ensembles":
        return [run.provenance for run in there.runs]
    found = {file.parent for folder in there.given for file in folder.glob("*/*/*/*.npz")}
    return [read_json(folder / PROVENANCE) for folder in sorted(found)]


def provenance(facts: list[dict[str, Any]]) -> dict[str, Any]:
    """Code and date, the threads, processors and weights of runs with these facts, or of this process.

    The commits are those of the runs and of this process, which tabulates them.
    """
    from ...callbacks.provenance import commit, installed, processor  # deferred: imports torch

    def of_runs(key: str, otherwise: object) -> str:
        known = {str(own.get(key, UNKNOWN)) for own in facts} or {str(otherwise)}
        # A processor's name has commas.
        return "; ".join(sorted(known))

    commits = {str(own.get("commit")) for own in facts} | {str(commit())}
    # Of data that do not come with Holdfast: number, crops, hash of the names.
    images = sorted({f"{own['source']}, {own['content']}" for own in facts if "content" in own})
    return {
        "version": installed("holdfast"),
        "commit": ", ".join(sorted(commits)),
        "date": date.today().isoformat(),
        "threads": of_runs("threads", os.cpu_count()),
        "processor": of_runs("device", processor()),
        "weights": sorted({own["weights"] for own in facts if own.get("weights")}) or "none",
        **({"images": images} if images else {}),
    }


def write(own: Experiment, results: dict[str, Any], cells: list[Cell], folder: Path) -> Path:
    """Write the numbers, figure and section of an experiment; returns the path of the figure."""
    from .picture import draw  # deferred: imports matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    picture, table = folder / f"{own.file}.png", Table.read(results["table"])
    if own.picture is None:
        draw(table, picture)
    else:
        own.picture(table, cells, picture)
    write_text(folder / f"{own.file}.json", text_of(results))
    write_text(folder / f"{own.file}.md", f"{section(own, results, picture.name)}\n")
    return picture


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def text_of(results: dict[str, Any]) -> str:
    """Results as JSON with one row of the table per line, so that differences are readable."""
    text = json.dumps(results, indent=1, ensure_ascii=False)
    for pattern in IN_ONE_LINE:
        text = re.sub(pattern, joined, text)
    return f"{text}\n"


def joined(found: re.Match[str]) -> str:
    return re.sub(r"\n\s*", "", re.sub(r",\n\s*", ", ", found[0]))


def keep(own: Experiment, results: dict[str, Any], picture: Path) -> None:
    """Write the numbers into the package, and figure, page and overview into docs/papers.

    Also where runs are missing, which may take days: the claims about them are not judged.

    Raises:
        HoldfastError: of full scale, and where results that decide claims have runs that are missing here.
    """
    scale = results["scale"]
    if scale == FULL:
        raise HoldfastError(
            f"{own.name}: --keep is for embedded scale and photos. Rerun the same command without it."
        )
    before = own.kept.get(scale, {})
    complete = before.get("missing") == [] and not own.unreliable(before)
    if results["missing"] and complete:
        raise HoldfastError(
            f"{own.name}: --keep would replace complete results by some that lack runs. Rerun the same "
            "command without --keep to write these next to the runs."
        )
    if reason := why_unreliable(results["provenance"]):
        raise HoldfastError(
            f"{own.name}: --keep cannot write results that were {reason}. Commit the code, delete the runs "
            "that were made before, and rerun the same command."
        )
    path, copy = own.path(scale), DOCS / own.paper / own.named(scale, ".png")
    for file in (path, copy):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text_of(results))
    shutil.copy(picture, copy)
    vars(own).pop("kept", None)
    write_text(DOCS / f"{own.paper}.md", page(own.paper, EXPERIMENTS.values()))
    write_text(DOCS / "claims.md", overview(EXPERIMENTS.values()))
    write_text(DOCS / "changes.md", changes(EXPERIMENTS.values()))
