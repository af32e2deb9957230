"""How long runs will take on this machine, before the first one starts."""

from collections import Counter
from pathlib import Path

from ..options import roughly
from ..results.runs import Run
from ..results.state import folders
from ..suites.cell import Cell
from ..suites.probe import probed


def estimated(cells: list[Cell]) -> str:
    """A sentence on how many runs there are and how long they take; "" if there are none.

    By finished runs of each method, or by the first batches of one on this machine.
    """
    if not cells:
        return ""
    known = known_speeds({cell.folder.parents[1] for cell in cells})
    counted = Counter(str(cell.names["method"]) for cell in cells)
    first = {str(cell.names["method"]): cell for cell in reversed(cells)}
    measured = {name: probed(first[name]) for name in counted if name not in known}
    speeds = known | {name: s for name, s in measured.items() if s is not None}
    seconds = sum(n * speeds[name] for name, n in counted.items() if name in speeds)
    text = f"{len(cells)} runs"
    if seconds:
        text += f", about {roughly(seconds)} on this machine one after the other"
    if rest := [name for name in counted if name not in speeds]:
        text += f"; how long those of {', '.join(rest)} take is known after the first one"
    return f"{text}.\n"


def known_speeds(places: set[Path]) -> dict[str, float]:
    """Seconds of a run, by method, from the finished runs in these folders."""
    found: dict[str, list[float]] = {}
    for place in sorted(path for path in places if path.exists()):
        for folder in folders(place):
            run = Run.load(folder)
            if run.finished and run.rows:
                found.setdefault(run.method, []).append(run.seconds)
    return {name: sum(values) / len(values) for name, values in found.items()}
