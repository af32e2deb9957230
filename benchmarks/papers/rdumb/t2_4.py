"""Table 2.4: how often RDumb should reset (thesis §2.6)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table, accuracies


def by_override(runs: list[Run]) -> Table:
    """Methods by the number that their override stands for."""
    return accuracies(runs, row=lambda run: run.method, column=lambda run: run.override)


def table(runs: list[Run]) -> Table:
    """RDumb by its interval."""
    found = by_override(runs)
    found.axis = "steps between resets"
    return found


ARTEFACT = Artefact(
    name="rdumb/T2.4",
    shows="RDumb on the hold-out corruptions by the steps between resets",
    suites={"embedded": ("rdumb/interval-glyphs",), "full": ("rdumb/interval",)},
    of_runs=table,
    claims=(
        Claim(
            "the shortest interval is worse than every other",
            lambda t: [t.step("RDumb", c, t.columns[0]) for c in t.columns[1:]],
        ),
        Claim(
            "from the third interval on they differ by less than a point",
            lambda t: [d for c in t.columns[3:] for d in t.near("RDumb", c, t.columns[2], 1)],
        ),
    ),
    published="T2.4",
    remark="Embedded intervals are a tenth of the paper's, as the streams are shorter.",
    why=(
        "An interval is a tenth of the paper's, but the learning rate is twenty times its own: "
        "entropy minimisation is at its best after fewer steps, and falls sooner. So the best "
        "interval is 50 steps, not 100."
    ),
)
