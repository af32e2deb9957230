"""Figure A.5c: how much harder some corruptions are than others, with ten classes (thesis, app. A.6)."""

from ...results.corruptions import by_corruption, shown
from ...results.runs import Run
from ...results.statistics import Difference
from ..artefact import Artefact
from ..table import Claim, Table

COLUMN = "Source"


def table(runs: list[Run]) -> Table:
    """The source model's accuracy on each corruption, the hardest first."""
    found = Table([COLUMN], {})
    for run in runs:
        for corruption, accuracy in by_corruption([run], "accuracy").items():
            found.add(shown(corruption), COLUMN, run.place, 100 * accuracy)
    order = sorted(found.rows, key=lambda row: found.mean(row, COLUMN) or 0)
    found.rows = {row: found.rows[row] for row in order}
    return found


def spread(t: Table) -> Difference | None:
    """The easiest corruption less the hardest one, less 20 points."""
    rows = list(t.rows)
    return t.more(rows[-1], rows[0], COLUMN, by=20)


ARTEFACT = Artefact(
    name="rdumb/FigA.5c",
    shows="accuracy of the source model on each corruption at severity 5, with ten classes",
    suites={"embedded": ("rdumb/ten-classes",), "full": ("rdumb/cifar10",)},
    of_runs=table,
    claims=(
        Claim(
            "the easiest corruption is 20 points or more above the hardest one",
            lambda t: [spread(t)],
        ),
    ),
    only={"method": ("Source",), "stream": ("severity 5",)},
)
