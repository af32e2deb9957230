"""A table or figure of a paper, declared in PAPER/paper.yaml."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...files import read_json
from ..suites import grid
from ..suites.cell import Cell
from .primitives import located
from .table import Table
from .verdicts import Claim, Verdict, claim_of, judge

HERE = Path(__file__).parent
PAPERS = ("rdumb", "flips", "aetta", "agreement", "citeme", "monitoring", "field")
SCALES = ("embedded", "full")
# The input of a table: finished runs, only the configurations of a suite, folders of ensembles, or
# result files given by path.
INPUTS = ("runs", "computed", "ensembles", "files")


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    suites: by scale, the suites with its runs; the ensembles for an experiment with `ensembles`.
    function, arguments: the function that computes the table, "module.function" in the paper's package or
    one of `tables`, and its arguments. full: further arguments at full scale. only: patterns of the names
    of runs to use. published: its table in published.json. trains: source models that its runs need, as
    options of `holdfast train` by file. picture: the function that draws it, if not the default.
    """

    name: str  # such as "rdumb/T2.4"
    shows: str  # a description in one line
    suites: Mapping[str, Sequence[str]]
    input: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    published: str = ""
    trains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    picture: str = ""

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    @property
    def file(self) -> str:
        """The stem of its files."""
        return self.name.partition("/")[2]

    @property
    def path(self) -> Path:
        """The path of the committed results at embedded scale."""
        return HERE / self.paper / "results" / f"{self.file}.json"

    @cached_property
    def committed(self) -> dict[str, Any]:
        """The committed results of the embedded scale; {} if there are none."""
        return read_json(self.path)

    @property
    def scales(self) -> list[str]:
        return [scale for scale in SCALES if scale in self.suites]

    @property
    def notes(self) -> dict[str, str]:
        """The notes on the experiment: "" for any scale, "embedded" for the committed results."""
        return notes(self.paper).get(self.file, {})

    def cells(self, scale: str, **replaced: Any) -> list[Cell]:
        """The cells of its suites without duplicates; the given keys replace those of the suites."""
        found: dict[Path, Cell] = {}
        for name in self.suites[scale] if self.input in ("runs", "computed") else ():
            own = grid.load(name, scale if grid.scales(name) else None)
            for cell in grid.cells(own | replaced):
                if all(matches(cell.names[key], names) for key, names in self.only.items()):
                    found.setdefault(cell.folder, cell)
        return list(found.values())

    def table(self, *given: Any, **options: Any) -> Table:
        """Compute the table from the input of its function: runs; scale and cells; or folders."""
        return named(self.function, self.paper)(*given, **{**self.arguments, **options})

    def verdicts(self, content: Mapping[str, Any]) -> list[Verdict]:
        """The verdict on each claim by these results."""
        table = Table.read(content["table"])
        # `needs` and the rerun noise apply only to embedded results.
        embedded = content.get("scale", "embedded") == "embedded"
        claims = [own if embedded else replace(own, needs="") for own in self.claims]
        return [judge(claim, table, self.noise if embedded else 0) for claim in claims]

    @property
    def noise(self) -> float:
        """The largest difference between repeated embedded runs in points of accuracy; 0 if unknown."""
        known = rerun_noise() if self.input == "runs" else {}
        names = [name for name in self.suites.get("embedded", ()) if name in known]
        return max((known[name]["noise"] for name in names), default=0)


def named(function: str, paper: str) -> Callable[..., Any]:
    """A function by name: of `tables`, "module.name" in the paper's package, or "paper.module.name"."""
    rooms = (("tables",), (paper,), ())[function.count(".")]
    return located(".".join((*rooms, function)))


def matches(name: Any, patterns: Sequence[str]) -> bool:
    """Whether a name is one of these or matches a pattern such as "Fully *"."""
    return any(fnmatchcase(str(name), str(pattern)) for pattern in patterns)


@cache
def rerun_noise() -> dict[str, Any]:
    """The measurements of `holdfast rerun-noise`, by suite."""
    return read_json(HERE / "noise.json")


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of the papers and their files."""
    return {own.name: own for paper in PAPERS for own in declared(paper)}


def declared(paper: str) -> list[Experiment]:
    """The experiments in the file of a paper."""
    content = load_yaml(HERE / paper / "paper.yaml")
    return [declaration(f"{paper}/{name}", own) for name, own in content["experiments"].items()]


def declaration(name: str, content: Mapping[str, Any]) -> Experiment:
    """Create an experiment from its declaration."""
    own = dict(content)
    (kind,) = (key for key in INPUTS if key in own)
    ((function, arguments),) = own.pop(kind).items()
    claims = [claim_of(key, claim) for key, claim in own.pop("claims", {}).items()]
    return Experiment(
        name=name, input=kind, function=function, arguments=arguments or {}, claims=claims, **own
    )


def load_yaml(path: Path) -> Any:
    """Read a YAML file that comes with Holdfast, with the fast parser if available."""
    import yaml  # deferred: slow import

    return yaml.load(
        path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


@cache
def notes(paper: str) -> dict[str, dict[str, str]]:
    """Read PAPER/notes.md: "## T2.1" starts the remarks, "### Embedded" below it the findings.

    What several experiments share stands once, below "## Fig1, Fig2"; an experiment's sections are joined.
    """
    path = HERE / paper / "notes.md"
    found: dict[str, dict[str, str]] = {}
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else ():
        titles, _, text = section.partition("\n")
        remark, _, embedded = text.partition("### Embedded\n")
        for title in titles.strip().split(", "):
            note = found.setdefault(title, {"": "", "embedded": ""})
            for key, part in (("", remark), ("embedded", embedded)):
                note[key] = f"{note[key]}\n\n{part.strip()}".strip()
    return found


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names; the name of a paper stands for all its experiments.

    Raises:
        HoldfastError: if a name does not exist.
    """
    known = experiments()
    result = []
    for name in names:
        found = [own for own in known.values() if name in (own.name, own.paper)]
        if not found:
            raise HoldfastError(
                f"'{name}' is not a table or figure. Choose from {', '.join(known)}."
            )
        result += found
    return result
