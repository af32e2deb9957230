"""Where an experiment's numbers come from: runs of suites, a simulation, ensembles, or result files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....files import read_json
from ....run_folder import CELL, PROVENANCE
from ...results.run_state import state
from ...results.runs import Run, collect, set_beside
from ...suites import grid, suite, trials
from ...suites.cell import Cell
from ...suites.options import RunOptions

if TYPE_CHECKING:
    from ...train.ensemble import Job

SCALES = EMBEDDED, PHOTOS, FULL = ("embedded", "photos", "full")


@dataclass(frozen=True)
class Request(RunOptions):
    """The scale of an experiment, and how it is made; folders of existing `runs` replace its own."""

    scale: str = EMBEDDED
    runs: Sequence[Path] | None = None


@dataclass
class Evidence:
    """What an experiment's function is called with; its runs, their cells, what is missing, and origins.

    provenance: of each run, or of each group of models.
    """

    data: Any
    runs: Sequence[Run] = ()
    cells: Sequence[Cell] = ()
    missing: Sequence[str] = ()
    provenance: Sequence[Mapping[str, Any]] = ()
    searched: Sequence[Path] = ()


class Source:
    """Where numbers come from.

    suites: names of suites, or of files of ensembles, by scale. counts: what means are taken over.
    compared: the parts of configurations that are compared with the paper's; () for all.
    """

    suites: Mapping[str, Sequence[str]] = {}
    counts = "runs"
    compared: Sequence[str] = ("data",)

    def unfinished(self, request: Request) -> list[Cell]:
        """The runs that `execute` starts or resumes."""
        return []

    def execute(self, request: Request, name: str) -> int:
        """Make what is missing; returns the number of failed runs. `name`: the experiment's."""
        return 0

    def load(self, request: Request) -> Evidence:
        """What there is, in the folders of the request or where the suites write."""
        raise NotImplementedError

    def cells(self, scale: str, data: Mapping[str, str] | None = None, **keys: Any) -> list[Cell]:
        """The runs of a scale before their execution; `keys` replace those of the suites."""
        return []


class Suite(Source):
    """The finished runs of suites.

    Args:
        names: of the suites.
        scales: at which there are results to make.
        full: names at full scale, if others.
        only: patterns of the names of runs to use, by key, such as {"setting": "CCC-Medium"}.
        trials: number of trials of each method, by scale, which replace the runs (`suites.trials`).
    """

    compared: Sequence[str] = ()

    def __init__(
        self,
        *names: str,
        scales: Sequence[str] = SCALES,
        full: Sequence[str] = (),
        only: Mapping[str, str | Sequence[str]] | None = None,
        trials: Mapping[str, int] | None = None,
    ) -> None:
        by_scale = {EMBEDDED: names, PHOTOS: names, FULL: full or names}
        self.suites = {scale: list(by_scale[scale]) for scale in scales}
        self.only = {k: [v] if isinstance(v, str) else list(v) for k, v in (only or {}).items()}
        self.trials = trials or {}

    def unfinished(self, request: Request) -> list[Cell]:
        cells = grid.share(self._wanted(request), *request.share)
        return [cell for cell in cells if not cell.finished]

    def execute(self, request: Request, name: str) -> int:
        cells = self._wanted(request)
        if missing := sum(not cell.finished for cell in cells):
            print(f"{name}: {missing} runs.")
        failed, elsewhere = suite.run_cells(cells, request)
        if failed or elsewhere:
            print(f"failed runs: {failed}; runs in progress in other processes: {elsewhere}")
        return failed

    def load(self, request: Request) -> Evidence:
        if request.runs:
            # The finished runs with the names of the experiment, or all if none of these adapts.
            runs = [run for run in collect(*request.runs) if run.finished]
            matching = [run for run in runs if self.matches(vars(run))]
            runs = matching if any(run.adapts for run in matching) else runs
            cells = [cell for run in runs if (cell := _cell_of(run))]
            return self._evidence(runs, cells, [], request.runs)
        cells = self._cells_of(request)
        missing = [_unfinished(cell) for cell in cells if not cell.finished]
        folders = dict.fromkeys(cell.folder.parents[1] for cell in cells)
        return self._evidence(runs_of(cells), cells, missing, [*folders])

    def _evidence(
        self, runs: list[Run], cells: list[Cell], missing: list[str], searched: Sequence[Path]
    ) -> Evidence:
        return Evidence(runs, runs, cells, missing, [run.provenance for run in runs], searched)

    def _wanted(self, request: Request) -> list[Cell]:
        """The cells that the command runs, if they are not finished."""
        return [cell for cell in self._cells_of(request) if request.wants(cell)]

    def _cells_of(self, request: Request) -> list[Cell]:
        """The cells with the folders and the seeds of the command."""
        return self.cells(request.scale, request.data, **request.replace_keys({}))

    def cells(self, scale: str, data: Mapping[str, str] | None = None, **keys: Any) -> list[Cell]:
        """The cells of the suites without duplicates; `keys` replace those of the suites.

        data: folders of the user's data, by their names in the suites.
        """
        cells: dict[Path, Cell] = {}
        for name in self.suites[scale]:
            content = grid.read_suite(name, scale if grid.scales(name) else None)
            content = grid.filled(content, data or {})
            if number := self.trials.get(scale):
                rates = trials.rates(content, number)
                candidates = trials.cells(trials.on_holdout(content) | keys, rates)
            else:
                candidates = [*grid.cells(content | keys)]
            for cell in candidates:
                if self.matches(cell.names):
                    cells.setdefault(cell.folder, cell)
        return list(cells.values())

    def matches(self, names: Mapping[str, Any]) -> bool:
        """Whether the names of a run are among those to use."""
        return all(
            any(fnmatchcase(str(names[key]), pattern) for pattern in patterns)
            for key, patterns in self.only.items()
        )


class Streams(Suite):
    """The cells of suites, for tables that follow from the streams' configurations alone."""

    compared = ("data",)

    def execute(self, request: Request, name: str) -> int:
        return 0

    def load(self, request: Request) -> Evidence:
        cells = self._cells_of(request)
        return Evidence(cells, cells=cells)


class Simulation(Source):
    """A computation that needs no runs; its function is called with the scale."""

    suites: Mapping[str, Sequence[str]] = {EMBEDDED: [], FULL: []}

    def load(self, request: Request) -> Evidence:
        return Evidence(request.scale)


class Ensembles(Source):
    """Folders of ensembles of models (`holdfast train ensemble FILE`), of files by name."""

    def __init__(self, *files: str) -> None:
        self.suites = {EMBEDDED: list(files)}

    def execute(self, request: Request, name: str) -> int:
        from ...train import ensemble  # deferred: imports torch

        if jobs := [job for job in self._jobs(request) if job.missing]:
            ensemble.train(jobs, request.jobs or 1)
        return 0

    def load(self, request: Request) -> Evidence:
        if request.runs:
            return self._evidence(list(request.runs), [])
        jobs = self._jobs(request)
        folders = [*dict.fromkeys(job.folder.parents[2] for job in jobs)]
        return self._evidence(folders, [str(job.folder) for job in jobs if job.missing])

    def _evidence(self, folders: list[Path], missing: list[str]) -> Evidence:
        members = {file.parent for folder in folders for file in folder.glob("*/*/*/*.npz")}
        facts = [read_json(folder / PROVENANCE) for folder in sorted(members)]
        return Evidence(folders, missing=missing, provenance=facts, searched=folders)

    def _jobs(self, request: Request) -> list[Job]:
        """The jobs that train the ensembles, in `out` of the request or the folders of their files."""
        from ...train import ensemble  # deferred: imports torch

        jobs: list[Job] = []
        for name in self.suites[request.scale]:
            config = ensemble.load(name)
            if request.seeds is not None:
                config["seeds"] = request.seeds
            if request.out is not None:
                config["out"] = str(Path(request.out, name))
            jobs += ensemble.jobs(config)
        return jobs


class Files(Source):
    """Result files of `holdfast cite run`, and the CSV of their data set, in `runs` of the request."""

    counts = "repeats"

    def load(self, request: Request) -> Evidence:
        return Evidence(request.runs or [])


def runs_of(cells: Sequence[Cell]) -> list[Run]:
    """The finished runs of cells, with the suite's factors, linked to their source models."""
    runs = []
    for cell in (cell for cell in cells if cell.finished):
        runs.append(Run.load(cell.folder))
        # Regardless of the version that wrote the folder.
        runs[-1].factors = dict(cell.factors)
    set_beside(runs)
    return runs


def _cell_of(run: Run) -> Cell | None:
    """The cell of a suite that this run belongs to; None for a run without a suite."""
    facts = read_json(run.folder / CELL)
    if not {"data", "model"} <= facts.get("config", {}).keys():
        return None
    return Cell(facts["names"], Path(run.folder), facts["config"], facts.get("factors", {}))


def name_of(cell: Cell) -> str:
    """The names of a run in one string."""
    return f"{cell.names['stream']}, seed {cell.names['seed']}, {cell.label}"


def _unfinished(cell: Cell) -> str:
    """The names of a run, and the error if it has failed."""
    status = state(cell.folder)
    return name_of(cell) + (f": {status.note}" if status.name == "failed" else "")
