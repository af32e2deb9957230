"""A table, figure or claim of a paper: the suites that give it and one function from runs to its table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...files import read_json
from ..results.runs import Run, set_beside
from ..suites import grid
from ..suites.cell import Cell
from .table import Claim, Table

HERE = Path(__file__).parent
PAPERS = ("rdumb", "flips", "aetta", "agreement")
SCALES = ("embedded", "full")


@dataclass(frozen=True)
class Artefact:
    """One of a paper's tables or figures.

    `of_runs` makes the table from the runs of the suites; `computed` from the scale and the suites'
    configurations alone, where nothing has to run (path lengths, a toy). Both are pure. Where the
    names of `suites` are ensembles, `of_ensembles` makes it from the folders of their predictions.
    """

    name: str  # "rdumb/T2.4"
    shows: str  # in one line
    suites: Mapping[str, Sequence[str]]  # of each scale; the runs of all of them together
    of_runs: Callable[[list[Run]], Table] | None = None
    computed: Callable[[str, list[Cell]], Table] | None = None
    of_ensembles: Callable[[list[Path]], Table] | None = None
    claims: Sequence[Claim] = ()
    only: dict[str, Sequence[str]] = field(
        default_factory=dict
    )  # names of the runs that count, patterns
    published: str = ""  # the table of published.json; "" if the paper prints no numbers
    remark: str = ""  # what a reader of the paper should know
    why: str = ""  # why claims do not hold at embedded scale, where that was found out
    trains: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # source models that its runs need: the options of `holdfast train-source` by file
    picture: Callable[[Table, list[Cell], Path], Path] | None = None  # instead of the table's own

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    @property
    def file(self) -> str:
        """The stem of its files."""
        return self.name.partition("/")[2]

    @property
    def results(self) -> Path:
        """Where the results of the embedded scale are kept."""
        return HERE / self.paper / "results" / f"{self.file}.json"

    @property
    def kept(self) -> dict[str, Any]:
        """The results of the embedded scale; {} if there are none."""
        return read_json(self.results)

    @property
    def scales(self) -> list[str]:
        return [scale for scale in SCALES if scale in self.suites]

    def cells(self, scale: str, **replaced: Any) -> list[Cell]:
        """What is to run, each once; keys of the suites are replaced by those given."""
        found: dict[Path, Cell] = {}
        for name in self.suites[scale] if self.of_ensembles is None else ():
            for cell in grid.cells(grid.load(name) | replaced):
                if all(matches(cell.names[key], names) for key, names in self.only.items()):
                    found.setdefault(cell.folder, cell)
        return list(found.values())

    @property
    def runs(self) -> bool:
        """Whether it is of a suite's runs."""
        return self.of_runs is not None

    def table(self, scale: str, cells: list[Cell]) -> Table:
        """Of what has been run of these cells."""
        if self.computed is not None:
            return self.computed(scale, cells)
        assert self.of_runs is not None
        runs = [run for cell in cells if (run := run_of(cell)).finished]
        for name, method in (("source", "Source"), ("bnadapt", "BNAdapt")):
            set_beside(runs, name, method)
        return self.of_runs(runs)


def run_of(cell: Cell) -> Run:
    """What a cell has become; its factors are the suite's, whichever version made the folder."""
    run = Run.load(cell.folder)
    run.factors = dict(cell.factors)
    return run


def matches(name: Any, patterns: Sequence[str]) -> bool:
    """Whether a name is one of these, or fits a pattern like "Fully *"."""
    return any(fnmatchcase(str(name), pattern) for pattern in patterns)


def artefacts() -> dict[str, Artefact]:
    """All of them by name, paper by paper, in the papers' order."""
    found = {}
    for paper in PAPERS:
        package = f"{__package__}.{paper}"
        for module in import_module(package).ARTEFACTS:
            artefact: Artefact = import_module(f"{package}.{module}").ARTEFACT
            found[artefact.name] = artefact
    return found


def chosen(names: Sequence[str]) -> list[Artefact]:
    """The artefacts of these names; a paper's name stands for all of its own.

    Raises:
        HoldfastError: if there is none of a name.
    """
    known = artefacts()
    result = []
    for name in names:
        found = [a for a in known.values() if name in (a.name, a.paper)]
        if not found:
            raise HoldfastError(f"there is no artefact '{name}': choose one of {', '.join(known)}.")
        result += found
    return result
