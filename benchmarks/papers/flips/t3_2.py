"""Table 3.2: errors of weighted flips for other architectures, with one f for all."""

from ...results.runs import Run
from ...results.statistics import Difference
from ..artefact import Artefact
from ..rdumb import WIDTHS
from ..table import Claim, Table
from .families import METHODS, and_more, below, with_one_f

LIMIT = 7.0  # points; the thesis' largest mean is 6.76, of ResNeXt-101


def table(runs: list[Run]) -> Table:
    """Mean absolute errors: data sets down, architectures across; f is that of the first."""
    return with_one_f(runs, lambda run: run.override or "first")


def small(t: Table) -> list[Difference | None]:
    """By how much the errors of each other architecture are below the limit."""
    return [below(t, name, LIMIT) for name in t.columns if name != "first"] or [None]


ARTEFACT = Artefact(
    name="flips/T3.2",
    shows="errors of weighted flips for other architectures, with one f for all",
    suites=and_more("architectures"),
    of_runs=table,
    claims=(
        Claim(f"with every other architecture the mean error is below {LIMIT:g} points", small),
    ),
    only={"method": METHODS},
    published="T3.2",
    trains=WIDTHS,
)
