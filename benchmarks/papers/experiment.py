"""A table or figure of a paper: a decorated function, and the claims that follow it.

@experiment("rdumb/T2.4")
def interval(runs):
    \"\"\"RDumb on the hold-out corruptions by the steps between resets\"\"\"
    return accuracy(runs, curve="method", x="every", axis="steps between resets")

interval.says("shortest-worst").rises("RDumb", to=REST)

Its suites and the sentences of its claims stand in PAPER/experiments.json.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from ... import HoldfastError
from ...files import read_json
from ..suites import grid, trials
from ..suites.cell import Cell
from .table import Table
from .verdicts import UNJUDGED, Claim, Verdict, judge

HERE = Path(__file__).parent
Published = dict[tuple[str, str], dict[str, Any]]  # {(panel, curve): {x: number or [mean, sd]}}
UNKNOWN = "not recorded"  # of threads and processor
SCALES = EMBEDDED, PHOTOS, FULL = ("embedded", "photos", "full")


@dataclass(eq=False)
class Experiment:
    """A table or figure of a paper: the function that computes its tidy frame, and its claims.

    name: such as "rdumb/T2.4".
    picture: draws the table from (table, cells, path), if the default does not.
    shows: a description in one line (default: the function's docstring).
    takes: what the function is given: finished "runs" of the suites, their "cells" (configurations), the
        "scale" of a simulation, folders of "ensembles", or result "files".
    suites: the names of its suites by scale; of ensembles: of their files.
    budget: by scale, of trials of each method of the suites (`suites.trials`), which replace their runs.
    only: patterns of the names of runs to use, by key.
    at_full: further arguments of the function at full scale.
    sentences: of its claims, by group and id.
    quotes: by id, the paper's words or the cells behind a claim.
    undecidable: by id, why embedded runs cannot decide a claim.
    counts: what the table has numbers of, if not runs, such as the streams whose seeds it averages.
    """

    function: Callable[..., pd.DataFrame]
    name: str
    picture: Callable[[Table, list[Cell], Path], Path] | None = None
    shows: str = ""
    takes: str = "runs"
    suites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    budget: Mapping[str, int] = field(default_factory=dict)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    at_full: Mapping[str, Any] = field(default_factory=dict)
    sentences: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotes: Mapping[str, str] = field(default_factory=dict)
    undecidable: Mapping[str, str] = field(default_factory=dict)
    counts: str = ""
    claims: list[Claim] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.paper, _, self.file = self.name.partition("/")
        self.shows = self.shows or " ".join((self.function.__doc__ or "").split())

    def __call__(self, *given: Any, **options: Any) -> pd.DataFrame:
        return self.function(*given, **options)

    def says(self, id: str, **about: Any) -> Claim:
        """Add the claim with this id; `about` are further fields of `Claim`."""
        (group,) = (group for group, ids in self.sentences.items() if id in ids)
        known = {"quote": self.quotes.get(id, ""), "undecidable": self.undecidable.get(id, "")}
        known["counts"] = self.counts
        self.claims.append(Claim(id, self.sentences[group][id], group, **{**known, **about}))
        return self.claims[-1]

    def command(self, scale: str) -> str:
        """The command that reproduces it."""
        return f"holdfast paper {self.name}" + ("" if scale == EMBEDDED else f" --scale {scale}")

    def path(self, scale: str = EMBEDDED) -> Path:
        """The path of the committed results."""
        return HERE / self.paper / "results" / self.named(scale, ".json")

    def named(self, scale: str, ending: str) -> str:
        """The name of its file at a scale, below a folder: "T2.1.png", "photos/T2.1.png"."""
        return ("" if scale == EMBEDDED else f"{scale}/") + self.file + ending

    @cached_property
    def kept(self) -> dict[str, dict[str, Any]]:
        """The committed results by scale, embedded before photos."""
        found = {scale: read_json(self.path(scale)) for scale in (EMBEDDED, PHOTOS)}
        return {scale: results for scale, results in found.items() if results}

    @property
    def committed(self) -> dict[str, Any]:
        """The committed results of the embedded scale; {} if there are none."""
        return self.kept.get(EMBEDDED, {})

    @property
    def published(self) -> Published:
        """The rows of the paper's table; the name of a nested table is the panel of its rows."""
        found: Published = {}
        table = data(f"{self.paper}/published.json").get(self.file, {"rows": {}})
        for row, cells in table["rows"].items():
            nested = all(isinstance(value, dict) for value in cells.values())
            found |= {(row, k): own for k, own in cells.items()} if nested else {("", row): cells}
        return found

    def note(self, scale: str = EMBEDDED) -> str:
        """The remarks on a scale: below "## T2.1", or for photographs "## T2.1 photos"."""
        return notes(self.paper).get(self.file + (" photos" if scale == PHOTOS else ""), "")

    def cells(
        self, scale: str, folders: Mapping[str, str] | None = None, **replaced: Any
    ) -> list[Cell]:
        """The cells of its suites without duplicates; the given keys replace those of the suites.

        folders: those of the user's data, by their names in the suites (`suite.FOLDERS`).
        """
        found: dict[Path, Cell] = {}
        for name in self.suites[scale] if self.takes in ("runs", "cells") else ():
            suite = grid.load(name, scale if grid.scales(name) else None)
            suite = grid.filled(suite, folders or {})
            if number := self.budget.get(scale):
                tried = trials.rates(suite, number)
                every = trials.cells(trials.on_holdout(suite) | replaced, tried)
            else:
                every = [*grid.cells(suite | replaced)]
            for cell in every:
                if self.matches(cell.names):
                    found.setdefault(cell.folder, cell)
        return list(found.values())

    def matches(self, names: Mapping[str, Any]) -> bool:
        """Whether the names of a run are among those to use."""
        return all(
            any(fnmatchcase(str(names[key]), pattern) for pattern in patterns)
            for key, patterns in self.only.items()
        )

    def verdicts(self, results: Mapping[str, Any]) -> list[Verdict]:
        """The verdict on each claim by these results.

        Committed results of unknown origin decide no claim.
        """
        if reason := self.unreliable(results):
            return [Verdict(claim, UNJUDGED, reason, []) for claim in self.claims]
        scale = results.get("scale", EMBEDDED)
        table = Table.read(results["table"])
        return [judge(claim, table, scale) for claim in self.claims]

    def unreliable(self, results: Mapping[str, Any]) -> str:
        """Why committed results decide no claim; "" if they do, or if they are not the committed ones."""
        known = any(results is own for own in self.kept.values())
        return why_unreliable(results["provenance"]) if known else ""

    @property
    def judged(self) -> list[Verdict]:
        """The verdicts by the committed results at embedded scale; [] without results."""
        return self.judged_at(EMBEDDED)

    def judged_at(self, scale: str) -> list[Verdict]:
        """The verdicts by the committed results of a scale; [] without results."""
        return self.verdicts(self.kept[scale]) if scale in self.kept else []


EXPERIMENTS: dict[str, Experiment] = {}  # by name, in the order of the papers' modules


def experiment(
    name: str, picture: Callable[[Table, list[Cell], Path], Path] | None = None
) -> Callable[..., Experiment]:
    """Register a function as an experiment, as a decorator or with arguments for the function.

    name: such as "rdumb/T2.4", of which rdumb/experiments.json has the other fields of `Experiment`.
    """
    paper, _, file = name.partition("/")

    def register(function: Callable[..., pd.DataFrame], **arguments: Any) -> Experiment:
        called = partial(function, **arguments) if arguments else function
        own = Experiment(called, name, picture, **data(f"{paper}/experiments.json")[file])
        return EXPERIMENTS.setdefault(name, own)

    return register


def why_unreliable(facts: Mapping[str, Any]) -> str:
    """Why results of this provenance must not be committed; "" if nothing speaks against it."""
    if re.search(r"\+|-dirty|None", str(facts.get("commit"))):
        return "made by uncommitted code"
    known = (str(facts.get(key, UNKNOWN)) for key in ("threads", "processor"))
    return "made with unknown threads or processor" if any(UNKNOWN in own for own in known) else ""


@cache
def data(file: str) -> dict[str, Any]:
    """The content of a JSON file such as "rdumb/published.json"; {} if there is none."""
    return read_json(HERE / file)


@cache
def notes(paper: str) -> dict[str, str]:
    """Read PAPER/notes.md: what stands below "## T2.1", or below "## Fig1, Fig2" for several, by name."""
    path = HERE / paper / "notes.md"
    found: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else ():
        titles, _, text = part.partition("\n")
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
            near = [own for own in EXPERIMENTS if own.lower().endswith(f"/{name.lower()}")]
            near = near or get_close_matches(name, EXPERIMENTS)
            choices = (
                f"Did you mean {' or '.join(near)}?" if near else "`holdfast paper` lists all."
            )
            raise HoldfastError(f"'{name}' is not a table or figure. {choices}")
        found += several
    return found
