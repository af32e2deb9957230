"""A table or figure of a paper: a decorated function with its source, and its claims below it.

@table("rdumb/T2.4", Suite("rdumb/interval"), "RDumb by the steps between resets")
def interval(runs):
    return accuracy(runs, curve="method", x="every", axis="steps between resets")

interval.claim(
    "shortest-worst",
    "the shortest interval is worse than every other",
    rises("RDumb", last=REST),
    quote="cells: 42.1 at 125 steps, and more elsewhere",
)

PAPER/published.json has the printed numbers, PAPER/notes.md remarks, PAPER/results/ our numbers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from .... import HoldfastError
from ....files import read_json
from ...suites.cell import Cell
from .claims import Check, Claim
from .sources import EMBEDDED, PHOTOS, Source
from .table import Table
from .verdicts import UNJUDGED, Verdict, judge

PAPERS = Path(__file__).parents[1]
Published = dict[tuple[str, str], dict[str, Any]]  # {(panel, curve): {x: number or [mean, sd]}}
Picture = Callable[[Table, Sequence[Cell], Path], Path]
UNKNOWN = "not recorded"  # of threads and processor


@dataclass(eq=False)
class Experiment:
    """A table or figure of a paper: the function that computes it, where from, and its claims.

    name: such as "rdumb/T2.4". title: what it shows, in one line. picture: draws it from (table, cells,
    path), if the default does not. counts: what it has numbers of, if not runs, such as the streams whose
    seeds it averages. at_full: further arguments of the function at full scale. remarks: the notes of a
    table that follow from its rows.
    """

    function: Callable[..., Table]
    name: str
    source: Source
    title: str
    picture: Picture | None = None
    counts: str = ""
    at_full: Mapping[str, Any] = field(default_factory=dict)
    remarks: Callable[[Table], Sequence[str]] | None = None
    claims: list[Claim] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.paper, _, self.file = self.name.partition("/")

    def __call__(self, *data: Any, **options: Any) -> Table:
        table = self.function(*data, **options)
        if self.remarks:
            table.notes = self.remarks(table)
        return table

    def claim(self, id: str, sentence: str, *checks: Check, **facts: Any) -> None:
        """Add a claim; `facts` are further fields of `Claim`, such as its quote."""
        if id in {claim.id for claim in self.claims}:
            raise HoldfastError(f"{self.name} already has a claim {id!r}. Choose another id.")
        self.claims.append(Claim(id, sentence, checks, counts=self.counts, **facts))

    def claim_of(self, id: str) -> Claim:
        """The claim with this id; raises HoldfastError, which lists the ids, if there is none."""
        by_id = {claim.id: claim for claim in self.claims}
        if id not in by_id:
            raise HoldfastError(
                f"{self.name} has no claim {id!r}. Its claims: {', '.join(by_id) or 'none'}."
            )
        return by_id[id]

    def command(self, scale: str) -> str:
        """The command that reproduces it."""
        return f"holdfast paper {self.name}" + ("" if scale == EMBEDDED else f" --scale {scale}")

    # ---- committed results ----------------------------------------------------------------------

    def path(self, scale: str = EMBEDDED) -> Path:
        """The path of the committed results."""
        return PAPERS / self.paper / "results" / self.file_name(scale, ".json")

    def file_name(self, scale: str, ending: str) -> str:
        """The name of its file at a scale, below a folder: "T2.1.png", "photos/T2.1.png"."""
        return ("" if scale == EMBEDDED else f"{scale}/") + self.file + ending

    @cached_property
    def committed(self) -> dict[str, dict[str, Any]]:
        """The committed results by scale, embedded before photos."""
        results = {scale: read_json(self.path(scale)) for scale in (EMBEDDED, PHOTOS)}
        return {scale: content for scale, content in results.items() if content}

    @property
    def published(self) -> Published:
        """The rows of the paper's table; the name of a nested table is the panel of its rows."""
        rows: Published = {}
        table = _data_of(self.paper).get(self.file, {"rows": {}})
        for name, cells in table["rows"].items():
            if all(isinstance(value, dict) for value in cells.values()):
                rows |= {(name, curve): row for curve, row in cells.items()}
            else:
                rows["", name] = cells
        return rows

    def note(self, scale: str = EMBEDDED) -> str:
        """The remarks on a scale: below "## T2.1", or for photographs "## T2.1 photos"."""
        return notes(self.paper).get(self.file + (" photos" if scale == PHOTOS else ""), "")

    # ---- verdicts -------------------------------------------------------------------------------

    def verdicts(self, results: Mapping[str, Any]) -> list[Verdict]:
        """The verdict on each claim by these results.

        Committed results of unknown origin decide no claim.
        """
        if reason := self.unreliable(results):
            return [Verdict(claim, UNJUDGED, reason) for claim in self.claims]
        table, scale = Table.read(results), results.get("scale", EMBEDDED)
        return [judge(claim, table, scale, results.get("absent", ())) for claim in self.claims]

    def unreliable(self, results: Mapping[str, Any]) -> str:
        """The reason why committed results cannot decide claims; "" if they can, or for other results."""
        is_committed = any(results is content for content in self.committed.values())
        return why_unreliable(results["provenance"]) if is_committed else ""

    def judged(self, scale: str = EMBEDDED) -> list[Verdict]:
        """The verdicts by the committed results of a scale; [] without results."""
        return self.verdicts(self.committed[scale]) if scale in self.committed else []


EXPERIMENTS: dict[str, Experiment] = {}  # by name, in the order of the papers' modules


def table(
    name: str,
    source: Source,
    title: str,
    picture: Picture | None = None,
    counts: str = "",
    at_full: Mapping[str, Any] | None = None,
    remarks: Callable[[Table], Sequence[str]] | None = None,
) -> Callable[[Callable[..., Table]], Experiment]:
    """Register the decorated function as a table or figure; for the arguments see `Experiment`."""

    def register(function: Callable[..., Table]) -> Experiment:
        experiment = Experiment(
            function, name, source, title, picture, counts, at_full or {}, remarks
        )
        return EXPERIMENTS.setdefault(name, experiment)

    return register


def why_unreliable(facts: Mapping[str, Any]) -> str:
    """Why results of this provenance must not be committed; "" if nothing speaks against it."""
    if re.search(r"\+|-dirty|None", str(facts.get("commit"))):
        return "made by uncommitted code"
    origins = (str(facts.get(key, UNKNOWN)) for key in ("threads", "processor"))
    unknown = any(UNKNOWN in origin for origin in origins)
    return "made with unknown threads or processor" if unknown else ""


@cache
def _data_of(paper: str) -> dict[str, Any]:
    """The content of PAPER/published.json; {} if there is none."""
    return read_json(PAPERS / paper / "published.json")


@cache
def front_matter(paper: str) -> str:
    """What PAPER/notes.md says before the first table: the paper's title and a summary; "" without it."""
    path = PAPERS / paper / "notes.md"
    return path.read_text(encoding="utf-8").partition("\n## ")[0].strip() if path.exists() else ""


@cache
def notes(paper: str) -> dict[str, str]:
    """Read PAPER/notes.md: what stands below "## T2.1", or below "## Fig1, Fig2" for several, by name."""
    path = PAPERS / paper / "notes.md"
    texts: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else ():
        titles, _, text = part.partition("\n")
        for title in titles.split(", "):
            texts[title] = f"{texts.get(title, '')}\n\n{text.strip()}".strip()
    return texts


def experiments_called(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names; the name of a paper stands for all its experiments.

    Raises:
        HoldfastError: if a name does not exist.
    """
    experiments = []
    for name in names:
        matching = [e for e in EXPERIMENTS.values() if name in (e.name, e.paper)]
        if not matching:
            near = [known for known in EXPERIMENTS if known.lower().endswith(f"/{name.lower()}")]
            near = near or get_close_matches(name, EXPERIMENTS)
            choices = (
                f"Did you mean {' or '.join(near)}?" if near else "`holdfast paper` lists all."
            )
            raise HoldfastError(f"'{name}' is not a table or figure. {choices}")
        experiments += matching
    return experiments
