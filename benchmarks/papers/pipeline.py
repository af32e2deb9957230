"""Compute an experiment in four stages: plan, run, tabulate and judge."""

import argparse
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..results.run_protocol import sentence
from ..results.runs import Run, collect, set_beside
from ..suites import suite
from ..suites.cell import Cell
from .experiment import Experiment, matches, named
from .page import command
from .places import placed, strings
from .published import cell_of


@dataclass(frozen=True)
class Plan:
    """The inputs and the remaining work of an experiment."""

    own: Experiment
    scale: str
    cells: list[Cell] = field(default_factory=list)  # of the suites, with the user's paths
    given: list[Path] = field(default_factory=list)  # --runs
    folders: list[Path] = field(default_factory=list)  # folders of ensembles
    jobs: list[Any] = field(default_factory=list)  # ensembles to train
    lacking: list[str] = field(default_factory=list)  # missing data of the cells

    @property
    def unfinished(self) -> list[Cell]:
        """The runs that are not finished."""
        return (
            [cell for cell in self.cells if not cell.finished] if self.own.input == "runs" else []
        )


def plan(own: Experiment, args: argparse.Namespace) -> Plan:
    """Plan an experiment at this scale."""
    if args.runs:
        return Plan(own, args.scale, given=args.runs)
    if own.input == "files":  # without files, the table has only the paper's numbers
        return Plan(own, args.scale)
    if args.scale not in own.suites:
        known = ", ".join(own.scales)
        raise HoldfastError(f"{own.name} has no {args.scale} scale. Choose from {known}.")
    if own.input == "ensembles":
        return ensembles(own, args)
    replaced = {k: v for k in ("out", "seeds") if (v := getattr(args, k)) is not None}
    cells, lacking = placed(own.cells(args.scale, **replaced), args)
    lacking = [text for text in lacking if not text.startswith(tuple(own.trains) or ("\0",))]
    return Plan(own, args.scale, cells, lacking=lacking)


def ensembles(own: Experiment, args: argparse.Namespace) -> Plan:
    """Plan the ensembles of an experiment, in `args.out` or the folders of their files."""
    from ..train import ensemble  # deferred: imports torch

    folders, jobs = [], []
    for name in own.suites[args.scale]:
        config = ensemble.load(name)
        config |= {} if args.out is None else {"out": str(Path(args.out, name))}
        config |= {} if args.seeds is None else {"seeds": args.seeds}
        folders.append(Path(config["out"]))
        jobs += ensemble.jobs(config)
    return Plan(own, args.scale, folders=folders, jobs=jobs)


def check(plans: Iterable[Plan]) -> None:
    """Refuse to start if data or weights are missing.

    Raises:
        HoldfastError: lists every missing path with the option that sets it, and the networks of other
            libraries whose weights can be neither found nor downloaded.
    """
    plans = list(plans)
    found = [*(text for own in plans for text in own.lacking), *no_weights(plans)]
    if lacking := list(dict.fromkeys(found)):
        listed = "\n".join(f"- {text}" for text in lacking)
        raise HoldfastError(f"Data for these runs are missing:\n{listed}")


def no_weights(plans: list[Plan]) -> Iterator[str]:
    """Load every network of another library once to download its weights; yields the failures."""
    from ...methods.backbones.load import LIBRARIES, load_backbone  # deferred: imports torch

    cells = [cell for own in plans for cell in own.unfinished]
    for name in dict.fromkeys(text for cell in cells for text in strings(cell.config)):
        if name.partition("/")[0] in LIBRARIES and "/" in name:
            try:
                load_backbone(name)
            except HoldfastError as error:
                yield str(error)


def run(plans: list[Plan], args: argparse.Namespace) -> tuple[int, int]:
    """Train missing models and execute missing runs; returns the numbers of failed and foreign runs."""
    for own in plans:
        train_missing(own)
        if jobs := [job for job in own.jobs if job.missing]:
            from ..train import ensemble  # deferred: imports torch

            ensemble.train(jobs, args.jobs or 1)
    failed = elsewhere = 0
    for own in plans:
        if own.own.input == "runs" and own.cells:
            args.command = command(own.own, own.scale)
            found = suite.run_cells(own.cells, args)
            failed, elsewhere = failed + found[0], elsewhere + found[1]
    return failed, elsewhere


def train_missing(own: Plan) -> None:
    """Train the missing source models of the runs."""
    needed = {text for cell in own.cells for text in strings(cell.config)}
    for file, options in own.own.trains.items():
        if file in needed and not Path(file).exists():
            from ..train import train

            train.main([*options, "--out", file])


def tabulate(own: Plan, args: argparse.Namespace | None = None) -> dict[str, Any]:
    """The results of the finished runs, in the format of committed results.

    Raises:
        HoldfastError: if there are no finished runs.
    """
    from .comparison import differences, of_training, unfinished  # deferred: imports torch

    experiment, cells, missing = own.own, own.cells, [str(j.folder) for j in own.jobs if j.missing]
    runs: list[Run] = []
    if experiment.input == "computed":
        table = experiment.table(own.scale, cells)
    elif experiment.input in ("ensembles", "files"):
        table = experiment.table(own.given or own.folders)
    else:
        runs = chosen(own)
        cells = [cell for run in runs if (cell := cell_of(run))] if own.given else cells
        further = experiment.full if own.scale == "full" else {}
        table = experiment.table(runs, **further, **options(experiment, args))
        missing = [] if own.given else unfinished(cells)
    if not table.rows:
        raise HoldfastError(
            f"{experiment.name} has no finished runs in {where(own)}. Run "
            f"`{command(experiment, own.scale)}` to execute them."
        )
    theirs = experiment.cells("full") if "full" in experiment.suites else []
    parts = () if experiment.input == "runs" else ("data",)
    return {
        "name": experiment.name,
        "scale": own.scale,
        "provenance": provenance(runs, own),
        "protocol": sentence((run.setting, run.label, run.protocol) for run in runs),
        "differences": [*map(str, differences(cells, theirs, parts)), *of_training(runs)],
        "missing": missing,
        "table": table.as_json(),
    }


def where(own: Plan) -> str:
    """The searched folders."""
    folders = own.given or own.folders or list({cell.folder.parents[1] for cell in own.cells})
    return ", ".join(map(str, folders))


def chosen(own: Plan) -> list[Run]:
    """The finished runs of a plan, linked to their source models.

    In folders given by the user, only runs with the names of the experiment count, or all if none matches.
    """
    if own.given:
        runs = [run for run in collect(*own.given) if run.finished]
        only = own.own.only.items()
        counted = [r for r in runs if all(matches(getattr(r, k), names) for k, names in only)]
        return counted if any(run.adapts for run in counted) else runs
    runs = [run for cell in own.cells if (run := run_of(cell)).finished]
    for name, method in (("source", "Source"), ("bnadapt", "BNAdapt")):
        set_beside(runs, name, method)
    return runs


def run_of(cell: Cell) -> Run:
    """The run of a cell, with the factors of the suite regardless of the version that wrote the folder."""
    run = Run.load(cell.folder)
    run.factors = dict(cell.factors)
    return run


def options(own: Experiment, args: argparse.Namespace | None) -> dict[str, Any]:
    """The user's options for f, for functions that accept them.

    Raises:
        HoldfastError: if the experiment does not use f.
    """
    given = {k: v for k in ("fit_on", "f") if (v := getattr(args, k, None))}
    taken = signature(named(own.function, own.paper)).parameters
    for option in given.keys() - taken.keys():
        raise HoldfastError(
            f"{own.name} does not support --{option.replace('_', '-')}. Remove the option."
        )
    return given


def provenance(runs: list[Run], own: Plan) -> dict[str, Any]:
    """The provenance of results: code, date, threads and processors of the runs, and weights."""
    facts = [run.provenance for run in runs]
    weights = {run.weights for run in runs} | {other for f in facts for other in others(f)}
    threads = {str(f["threads"]) for f in facts if "threads" in f}
    processors = {str(f["device"]) for f in facts if "device" in f}
    here = own.own.input != "runs"
    return {
        "version": own_version(),
        "commit": commit(),
        "date": date.today().isoformat(),
        "threads": ", ".join(sorted(threads)) or (str(os.cpu_count()) if here else "not recorded"),
        "processor": ", ".join(sorted(processors)) or platform.processor() or platform.machine(),
        "weights": sorted(w for w in weights if w)
        or sorted({base_of(job.config["base"]) for job in own.jobs})
        or "none",
    }


def others(facts: dict[str, Any]) -> list[str]:
    """The weights of further networks used by a run's estimators."""
    found = []
    for arguments in (facts.get("estimators") or {}).values():
        own = arguments.get("weights")
        found += own if isinstance(own, list) else [own] if own else []
    return found


def base_of(name: str) -> str:
    """The initial weights of an ensemble's models: their hash, or the name of the random weights."""
    from ...methods.backbones.load import EMBEDDED, load_backbone  # deferred: imports torch

    if name not in EMBEDDED and not name.endswith(".safetensors"):
        return f"base {name}"
    facts: Any = load_backbone(name).provenance
    return str(facts["hash"])


def own_version() -> str:
    """The version of the installed distribution."""
    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "not recorded"


def commit() -> str:
    """The commit of the clone, with a + if it has changes; "not recorded" for an installed package."""
    import subprocess

    root = Path(__file__).parents[2]
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "not recorded"
    return found.stdout.strip()
