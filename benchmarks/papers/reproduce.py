"""Compute an experiment: execute what is missing, tabulate and judge it, and write its page."""

import argparse
import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...endings import sigterm_as_ctrl_c
from ...files import whole_file
from ..results.run_protocol import sentence
from ..results.runs import Run, collect, set_beside
from ..suites import suite
from ..suites.cell import Cell
from .experiment import EMBEDDED, EXPERIMENTS, FULL, Experiment, matches
from .page import command, overview, page
from .table import Table

DOCS = Path(__file__).parents[2] / "docs" / "papers"
FILES = (".npz", ".safetensors", ".pth", ".pth.tar")


def check_options(own: Experiment, args: argparse.Namespace) -> None:
    """Refuse a scale or an option that an experiment does not have."""
    if own.suites and not args.runs and args.scale not in own.suites:
        known = ", ".join(own.scales)
        raise HoldfastError(f"{own.name} has no {args.scale} scale. Choose from {known}.")
    for name, given in {"fit_on": args.fit_on, "f": args.f}.items():
        if given and name not in own.options:
            option = name.replace("_", "-")
            raise HoldfastError(f"{own.name} does not support --{option}. Remove the option.")


def run_missing(several: list[Experiment], args: argparse.Namespace) -> int:
    """Execute missing runs and train missing ensembles; returns the number of failed runs.

    Raises:
        HoldfastError: before the first run, if files are missing.
    """
    cells = {own.name: cells_of(own, args) for own in several if own.takes == "runs"}
    unfinished = [cell for known in cells.values() for cell in known if not cell.finished]
    check_files(unfinished)
    if unfinished:
        print(f"{len(unfinished)} runs.")
    failed = elsewhere = 0
    try:
        with sigterm_as_ctrl_c():
            for own in several:
                if missing := [job for job in ensemble_jobs(own, args) if job.missing]:
                    from ..train import ensemble  # deferred: imports torch

                    ensemble.train(missing, args.jobs or 1)
                elif own.name in cells:
                    args.command = command(own, args.scale)
                    ended = suite.run_cells(cells[own.name], args)
                    failed, elsewhere = failed + ended[0], elsewhere + ended[1]
    except KeyboardInterrupt:
        # The message of a run names --resume, which this command lacks.
        raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
    if failed or elsewhere:
        print(f"failed runs: {failed}; runs in progress in other processes: {elsewhere}")
    return failed


def cells_of(own: Experiment, args: argparse.Namespace) -> list[Cell]:
    """The cells of an experiment with the folder and the seeds of the command."""
    replaced = {k: v for k in ("out", "seeds") if (v := getattr(args, k)) is not None}
    return own.cells(args.scale, **replaced)


def check_files(cells: list[Cell]) -> None:
    """Refuse to start without the data, calibrations and weights that configurations name by path."""
    named = dict.fromkeys(path for cell in cells for path in paths(cell.config))
    if lacking := [path for path in named if not Path(path).exists()]:
        listed = "\n".join(f"- {path}" for path in lacking)
        raise HoldfastError(
            "Files of these runs are missing. Put them or links to them there; docs/guides/papers.md says "
            f"how source models are trained:\n{listed}"
        )


def paths(config: Any, key: str = "") -> Iterator[str]:
    """The paths in a configuration: folders of data, and files of calibrations and weights."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield from paths(value, name)
    elif isinstance(config, list):
        for value in config:
            yield from paths(value, key)
    elif isinstance(config, str) and (key in ("root", "folder") or config.endswith(FILES)):
        yield config.rpartition(":")[2]


def ensemble_jobs(own: Experiment, args: argparse.Namespace) -> list[Any]:
    """The jobs that train an experiment's ensembles, in `args.out` or the folders of their files."""
    if own.takes != "ensembles":
        return []
    from ..train import ensemble  # deferred: imports torch

    found = []
    for name in own.suites[args.scale]:
        config = ensemble.load(name) | ({} if args.seeds is None else {"seeds": args.seeds})
        config |= {} if args.out is None else {"out": str(Path(args.out, name))}
        found += ensemble.jobs(config)
    return found


def tabulate(own: Experiment, args: argparse.Namespace) -> tuple[dict[str, Any], list[Cell]]:
    """The results of what is finished, in the format of committed results, and the cells of the runs.

    Raises:
        HoldfastError: if nothing is finished.
    """
    # Deferred: imports torch.
    from .comparison import cell_of, differences, of_training, unfinished

    runs: list[Run] = []
    jobs = [] if args.runs else ensemble_jobs(own, args)
    cells = [] if args.runs else cells_of(own, args)
    missing = [str(job.folder) for job in jobs if job.missing]
    if own.takes == "runs" and args.runs:
        given = runs = runs_in(own, args.runs)
        cells = [cell for run in runs if (cell := cell_of(run))]
    elif own.takes == "runs":
        given, missing = (runs := runs_of(cells)), unfinished(cells)
    elif own.takes in ("files", "ensembles"):
        given = args.runs or [*dict.fromkeys(job.folder.parents[2] for job in jobs)]
    else:
        given = cells if own.takes == "cells" else args.scale
    options = own.at_full if args.scale == FULL else {}
    asked = {k: v for k in own.options if (v := getattr(args, k))}
    table = Table.of(own(given, **options, **asked))
    if table.frame.empty:
        places = args.runs or {cell.folder.parents[1] for cell in cells} or given
        raise HoldfastError(
            f"{own.name} has no finished runs in {', '.join(map(str, places))}. Run "
            f"`{command(own, args.scale)}` to execute them."
        )
    protocol = sentence((run.setting, run.label, run.protocol) for run in runs) if runs else ""
    theirs = own.cells(FULL) if FULL in own.suites else []
    parts = () if own.takes == "runs" else ("data",)
    results = {
        "name": own.name,
        "scale": args.scale,
        "provenance": provenance(runs, {job.config["base"] for job in jobs}),
        "protocol": protocol,
        "differences": [*map(str, differences(cells, theirs, parts)), *of_training(runs)],
        "missing": missing,
        "table": table.as_json(),
    }
    return results, cells


def runs_of(cells: list[Cell]) -> list[Run]:
    """The finished runs of cells, with the suite's factors, linked to their source models."""
    runs = []
    for cell in (cell for cell in cells if cell.finished):
        runs.append(Run.load(cell.folder))
        # Regardless of the version that wrote the folder.
        runs[-1].factors = dict(cell.factors)
    set_beside(runs, "source", "Source")
    set_beside(runs, "bnadapt", "BNAdapt")
    return runs


def runs_in(own: Experiment, folders: list[Path]) -> list[Run]:
    """The finished runs in folders with the names of an experiment, or all if none matches."""
    runs = [run for run in collect(*folders) if run.finished]
    only = own.only.items()
    counted = [run for run in runs if all(matches(getattr(run, k), names) for k, names in only)]
    return counted if any(run.adapts for run in counted) else runs


def provenance(runs: list[Run], bases: set[str]) -> dict[str, Any]:
    """Code, date, threads and processors of the runs (or of this process), and the weights.

    bases: the networks that ensembles start from.
    """
    from ...callbacks.provenance import commit, installed, processor  # deferred: imports torch
    from ...methods.backbones.load import EMBEDDED as NETWORKS
    from ...methods.backbones.load import load_backbone

    facts = [run.provenance for run in runs]
    weights: set[Any] = {run.weights for run in runs}
    for arguments in (own for f in facts for own in (f.get("estimators") or {}).values()):
        further = arguments.get("weights")
        weights |= set(further) if isinstance(further, list) else {further}
    for base in bases:
        trained = base in NETWORKS or base.endswith(".safetensors")
        weights.add(load_backbone(base).provenance["hash"] if trained else f"base {base}")
    threads = {str(f["threads"]) for f in facts if "threads" in f} or {str(os.cpu_count())}
    processors = {str(f["device"]) for f in facts if "device" in f} or {processor()}
    return {
        "version": installed("holdfast"),
        "commit": commit(),
        "date": date.today().isoformat(),
        "threads": ", ".join(sorted(threads)),
        "processor": ", ".join(sorted(processors)),
        "weights": sorted(filter(None, weights)) or "none",
    }


def write(own: Experiment, results: dict[str, Any], cells: list[Cell], folder: Path) -> Path:
    """Write the numbers, figure and page of an experiment; returns the path of the figure."""
    from .picture import draw  # deferred: imports matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    picture, table = folder / f"{own.file}.png", Table.read(results["table"])
    if own.picture is None:
        draw(table, picture)
    else:
        own.picture(table, cells, picture)
    write_text(folder / f"{own.file}.json", text_of(results))
    write_text(picture.with_suffix(".md"), page(own, results, "markdown", picture.name))
    return picture


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def text_of(results: dict[str, Any]) -> str:
    """Results as JSON with one row of the table per line, so that differences are readable."""
    dumped = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731
    table = dict(results["table"])
    blocks = {name: table[name] for name in ("rows", "points") if name in table}
    table |= {name: f"@{name}@" for name in blocks}
    text = json.dumps({**results, "table": table}, indent=1, ensure_ascii=False)
    for name, block in blocks.items():
        lines = [f"   {dumped(entry)}" for entry in block]
        if isinstance(block, dict):
            lines = [f"{key}: {dumped(block[k])}" for key, k in zip(lines, block, strict=True)]
        left, right = "{}" if isinstance(block, dict) else "[]"
        joined = ",\n".join(lines)
        text = text.replace(f'"@{name}@"', f"{left}\n{joined}\n  {right}")
    return f"{text}\n"


def keep(own: Experiment, results: dict[str, Any], cells: list[Cell]) -> None:
    """Write the numbers into the package, and page, figure and the overview into docs/papers."""
    if results["scale"] != EMBEDDED or results["missing"]:
        raise HoldfastError(
            f"{own.name}: --keep needs complete results at embedded scale. Rerun the same command without "
            "--keep to write the available results next to the runs."
        )
    write(own, results, cells, DOCS / own.paper)
    own.path.parent.mkdir(parents=True, exist_ok=True)
    (DOCS / own.paper / f"{own.file}.json").replace(own.path)
    vars(own).pop("committed", None)
    write_text(DOCS / "claims.md", overview(EXPERIMENTS.values()))
