"""Figure B.5: Tent without the images of low entropy (thesis B.7)."""

from ...results.runs import Run
from ...results.statistics import above_zero
from ..artefact import Artefact
from ..table import Claim, Table
from .omission import gains, level, omitting

CALLED = "entropy above "


def table(runs: list[Run]) -> Table:
    """The gains, and in sentences how many images each level leaves, and how certain these are."""
    found = gains(runs, "entropy", CALLED)
    for run in sorted(runs, key=lambda run: level(run, "entropy")):
        if facts := omitting(run):
            found.notes.append(
                f"{CALLED}{level(run, 'entropy'):g}, seed {run.seed}: "
                f"{100 * facts['left'] / facts['pool']:.0f} % of the images left, of entropy "
                f"{facts['entropy_left']:.2f}."
            )
    return found


def levels(t: Table) -> list[str]:
    return list(t.rows)


ARTEFACT = Artefact(
    name="flips/FigB.5",
    shows="Tent without the images of which the model is certain: accuracy gained on others",
    suites={"embedded": ("flips/omission-glyphs",), "full": ("flips/omission",)},
    of_runs=table,
    claims=(
        Claim(
            "without the images of lowest entropy Tent gains accuracy",
            lambda t: [above_zero(t.pooled(row, t.columns[-1:])) for row in levels(t)[1:3]],
        ),
        Claim(
            "it gains less without those of up to the highest level than with all",
            lambda t: [t.gain(levels(t)[0], levels(t)[-1], t.columns[-1])],
        ),
    ),
    only={"stream": ("top 0", "entropy *")},
)
