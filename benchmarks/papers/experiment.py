"""A table or figure of a paper: a decorated function, and the claims that follow it.

@experiment("rdumb/T2.4", "rdumb/interval", published="T2.4")
def interval(runs):
    \"\"\"RDumb on the hold-out corruptions by the steps between resets\"\"\"
    return accuracy(runs, curve="method", x="every", axis="steps between resets")

interval.says("shortest-worst").rises("RDumb", to=REST)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from ... import HoldfastError
from ...files import read_json
from ..suites import grid
from ..suites.cell import Cell
from .claims import listed
from .table import Table
from .verdicts import Claim, Verdict, counted, judge

HERE = Path(__file__).parent
SCALES = EMBEDDED, FULL = ("embedded", "full")
FINDINGS = "Findings at embedded scale: "
ONLY = ("method", "override", "setting", "stream")


@dataclass(eq=False)
class Experiment:
    """A table or figure of a paper: the function that computes its tidy frame, and its claims.

    name: such as "rdumb/T2.4".
    shows: a description in one line (default: the function's docstring).
    takes: what the function is given: finished "runs" of the suites, their "cells" (configurations), the
        "scale" of a simulation, folders of "ensembles", or result "files".
    suites: the names of its suites by scale; of ensembles: of their files.
    only: patterns of the names of runs to use, by key.
    at_full: further arguments of the function at full scale.
    published: its table in published.json.
    points: whether the numbers of its claims are points of accuracy, the unit of rerun noise.
    picture: draws the table from (table, cells, path), if the default does not.
    """

    function: Callable[..., pd.DataFrame]
    name: str
    shows: str = ""
    takes: str = "runs"
    suites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    at_full: Mapping[str, Any] = field(default_factory=dict)
    published: str = ""
    points: bool = True
    picture: Callable[[Table, list[Cell], Path], Path] | None = None
    claims: list[Claim] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.shows = self.shows or " ".join((self.function.__doc__ or "").split())

    def __call__(self, *given: Any, **options: Any) -> pd.DataFrame:
        """Compute the tidy frame."""
        return self.function(*given, **options)

    def says(self, id: str, **about: Any) -> Claim:
        """Add a claim of the paper, by its id in claims.json; `about` are further fields of `Claim`."""
        says = about.pop("says", "") or data(f"{self.paper}/claims.json")[self.file][id]
        self.claims.append(Claim(id, says, **{"points": self.points, **about}))
        return self.claims[-1]

    def ours(self, id: str, **about: Any) -> Claim:
        """Add a hypothesis of ours."""
        return self.says(id, group="ours", **about)

    def threshold(self, id: str, **about: Any) -> Claim:
        """Add a claim of the paper with a threshold of ours."""
        return self.says(id, group="threshold", **about)

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
    def note(self) -> str:
        """Remarks, and the findings of the committed results."""
        return notes(self.paper).get(self.file, "")

    def cells(self, scale: str, **replaced: Any) -> list[Cell]:
        """The cells of its suites without duplicates; the given keys replace those of the suites."""
        found: dict[Path, Cell] = {}
        for name in self.suites[scale] if self.takes in ("runs", "cells") else ():
            suite = grid.load(name, scale if grid.scales(name) else None)
            for cell in grid.cells(suite | replaced):
                if all(matches(cell.names[key], names) for key, names in self.only.items()):
                    found.setdefault(cell.folder, cell)
        return list(found.values())

    def verdicts(self, results: Mapping[str, Any]) -> list[Verdict]:
        """The verdict on each claim by these results; the rerun noise is that of embedded runs."""
        scale = results.get("scale", EMBEDDED)
        noise = self.noise if scale == EMBEDDED else 0
        table = Table.read(results["table"])
        return [judge(claim, table, scale, noise) for claim in self.claims]

    @property
    def judged(self) -> list[Verdict]:
        """The verdicts by the committed results; [] without results."""
        return self.verdicts(self.committed) if self.committed else []

    @property
    def verdict(self) -> str:
        """The number of claims by verdict, from the committed results; "" without results."""
        return counted([own.state for own in self.judged])

    @property
    def noise(self) -> float:
        """The largest difference between repeated embedded runs in points of accuracy; 0 if unknown."""
        names = self.suites.get(EMBEDDED, ()) if self.takes == "runs" else ()
        known = data("noise.json")
        return max((known[name]["noise"] for name in names if name in known), default=0)


EXPERIMENTS: dict[str, Experiment] = {}  # by name, in the order of the papers' modules


def experiment(
    name: str,
    suite: str | Sequence[str] = (),
    full: str | Sequence[str] = (),
    scale: str = "",
    **about: Any,
) -> Callable[..., Experiment]:
    """Register a function as an experiment, with further arguments for it or as a decorator.

    Args:
        name: such as "rdumb/T2.4".
        suite: one suite or several.
        full: those of the full scale, if they have other names.
        scale: the only scale; by default there are both.
        about: further fields of `Experiment`, and patterns of the names of runs to use by key, such as
            `setting="CCC-*"`.
    """
    scales = [] if about.get("takes") == "files" else [scale] if scale else SCALES
    suites = {own: listed(full if own == FULL and full else suite) for own in scales}
    only = {key: listed(about.pop(key)) for key in ONLY if key in about}

    def register(function: Callable[..., pd.DataFrame], **arguments: Any) -> Experiment:
        called = partial(function, **arguments) if arguments else function
        own = Experiment(called, name, suites=suites, only=only, **about)
        return EXPERIMENTS.setdefault(name, own)

    return register


def matches(name: Any, patterns: Sequence[str]) -> bool:
    """Whether a name is one of these or matches a pattern such as "Fully *"."""
    return any(fnmatchcase(str(name), pattern) for pattern in patterns)


@cache
def data(file: str) -> dict[str, Any]:
    """The content of a JSON file beside the modules, such as "rdumb/claims.json"; {} if there is none."""
    return read_json(HERE / file)


@cache
def notes(paper: str) -> dict[str, str]:
    """Read PAPER/notes.md: what stands below "## T2.1", or below "## Fig1, Fig2" for several, by name."""
    path = HERE / paper / "notes.md"
    found: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else ():
        titles, _, text = part.replace("### Embedded\n\n", FINDINGS).partition("\n")
        for title in titles.split(", "):
            found[title] = f"{found.get(title, '')}\n\n{text.strip()}".strip()
    return found


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names; the name of a paper stands for all its experiments.

    Raises:
        HoldfastError: if a name does not exist.
    """
    found = []
    for name in names:
        several = [own for own in EXPERIMENTS.values() if name in (own.name, own.paper)]
        if not several:
            raise HoldfastError(
                f"'{name}' is not a table or figure. Choose from {', '.join(EXPERIMENTS)}."
            )
        found += several
    return found
