"""How the learning rates were chosen: on the hold-out corruptions (thesis §2.4)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Table
from .t2_4 import by_override

COST = 1.5  # points, which the embedded suites' rates may cost: a short stream shows what a long one does


def table(runs: list[Run]) -> Table:
    """Methods by their learning rate; which is best for each, and the largest that costs little."""
    found = by_override(runs)
    found.columns.sort(key=float)
    found.axis = "learning rate"
    for method in found.rows:
        best, largest = rates(found, method)
        found.notes.append(
            f"{method} does best with {best}; {largest} is the largest that costs at most {COST} points."
        )
    return found


def rates(t: Table, method: str) -> tuple[str, str]:
    """The best learning rate of a method, and the largest that costs little."""
    means = {c: m for c in t.columns if (m := t.mean(method, c)) is not None}
    best = max(means, key=means.__getitem__)
    return best, [c for c in means if means[c] >= means[best] - COST][-1]


ARTEFACT = Artefact(
    name="rdumb/holdout",
    shows="each adapting method on the hold-out corruptions by its learning rate",
    suites={"embedded": ("rdumb/rates-glyphs",), "full": ("rdumb/rates",)},
    of_runs=table,
    remark="The paper chose its settings this way and prints the chosen ones alone.",
)
