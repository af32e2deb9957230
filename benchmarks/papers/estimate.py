"""The estimated time of runs on this machine, before the first one starts."""

import contextlib
from collections import Counter
from pathlib import Path

from ..measure.plan import Profile
from ..results.runs import Run
from ..results.state import folders
from ..run.common_options import roughly
from ..suites.cell import Cell

FEW = 5  # steps of a trial, as a step at full scale takes seconds


def estimated(cells: list[Cell]) -> str:
    """A sentence with the number of runs and their estimated time; "" without runs.

    The estimate uses finished runs of each method, or the first batches of a run on this machine.
    """
    if not cells:
        return ""
    known = known_speeds({cell.folder.parents[1] for cell in cells})
    counted = Counter(str(cell.names["method"]) for cell in cells)
    first = {str(cell.names["method"]): cell for cell in reversed(cells)}
    speeds, profile = dict(known), Profile(steps=FEW)
    for name in [name for name in counted if name not in known]:
        with contextlib.suppress(Exception):  # the run itself raises it later
            speeds[name] = profile.load(first[name]).seconds
    seconds = sum(n * speeds[name] for name, n in counted.items() if name in speeds)
    text = f"{len(cells)} runs"
    if seconds:
        text += f", about {roughly(seconds)} on this machine one after the other"
    if rest := [name for name in counted if name not in speeds]:
        text += f"; how long those of {', '.join(rest)} take is known after the first one"
    return f"{text}.\n"


def known_speeds(places: set[Path]) -> dict[str, float]:
    """Seconds per run by method, from the finished runs in these folders."""
    found: dict[str, list[float]] = {}
    for place in sorted(path for path in places if path.exists()):
        for folder in folders(place):
            run = Run.load(folder)
            if run.finished and run.rows:
                found.setdefault(run.method, []).append(run.seconds)
    return {name: sum(values) / len(values) for name, values in found.items()}
