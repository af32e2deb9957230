"""How the learning rates were chosen: on the hold-out corruptions (thesis §2.4)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Table
from .t2_4 import by_override


def table(runs: list[Run]) -> Table:
    """Methods by their learning rate, and which is best for each."""
    found = by_override(runs)
    found.columns.sort(key=float)
    found.axis = "learning rate"
    for method in found.rows:
        known = [c for c in found.columns if found.mean(method, c) is not None]
        best = max(known, key=lambda column: found.mean(method, column) or 0)
        found.notes.append(f"{method} does best with {best}.")
    return found


ARTEFACT = Artefact(
    name="rdumb/holdout",
    shows="each adapting method on the hold-out corruptions by its learning rate",
    suites={"embedded": ("rdumb/rates-glyphs",), "full": ("rdumb/rates",)},
    of_runs=table,
    remark="The paper chose its settings this way and prints the chosen ones alone.",
)
