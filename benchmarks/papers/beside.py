"""Published means beside the runs of a report, where every run is as the paper's own suite has it."""

from ...files import jsonable, read_json
from ...run_folder import CELL
from ..results.aggregate import groups
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from . import published
from .artefact import artefacts
from .compare import INDIFFERENT, flat, names_of, read


def published_beside(everything: list[Run]) -> dict[tuple[str, str], str]:
    """What papers print for the same runs, by setting and method.

    The same are data, model and settings of each run, and that all of them are there and finished.
    """
    found: dict[tuple[str, str], str] = {}
    known = {(group.setting, group.label): group.runs for group in groups(everything)}
    for artefact in (a for a in artefacts().values() if a.published and "full" in a.suites):
        rows = published.table(artefact.paper, artefact.published)
        wanted = {
            pair: runs
            for pair, runs in known.items()
            if runs and isinstance(rows.get(pair[1], {}).get(pair[0]), float | list)
        }
        if not wanted:
            continue
        theirs = grouped(artefact.cells("full"), lambda c: (c.names["setting"], label(c)))
        for pair, runs in wanted.items():
            if same(runs, theirs.get(pair, [])):
                text = published.text(rows[pair[1]][pair[0]])
                found.setdefault(pair, f"{text} ({artefact.name})")
    return found


def label(cell: Cell) -> str:
    return "-".join(filter(None, (cell.names["method"], cell.names["override"])))


def same(runs: list[Run], theirs: list[Cell]) -> bool:
    """Whether these are the paper's runs, each of them."""
    ours = [cell for run in runs if (cell := cell_of(run)) is not None]
    if len(ours) != len(runs) or len(ours) != len(theirs):
        return False
    paper = {names_of(cell): arguments(cell) for cell in theirs}
    return all(paper.get(names_of(cell)) == arguments(cell) for cell in ours)


def cell_of(run: Run) -> Cell | None:
    """What a suite had this run do; None of a run without a suite."""
    facts = read_json(run.folder / CELL)
    if not {"data", "model"} <= facts.get("config", {}).keys():
        return None
    return Cell(facts["names"], run.folder, facts["config"], facts.get("factors", {}))


def arguments(cell: Cell) -> dict[str, object]:
    """What can change the numbers of a run."""
    found: dict[tuple[str, str], object] = {}
    for key in ("data", "model"):
        found |= {(key, name): value for name, value in flat(read(cell, key)).items()}
    kept = {f"{key}.{name}": v for (key, name), v in found.items() if name not in INDIFFERENT}
    return jsonable(kept)
