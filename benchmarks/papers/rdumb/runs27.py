"""The 27 runs of CCC: three difficulties, three speeds, three seeds (thesis §2.2)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table, accuracies
from . import CCC, METHODS


def table(runs: list[Run]) -> Table:
    """Methods by difficulty and speed, means over the seeds."""
    return accuracies(runs, column=lambda run: run.stream, rows=METHODS)


ARTEFACT = Artefact(
    name="rdumb/runs27",
    shows="the 27 runs: each method by difficulty and speed",
    suites={"embedded": ("rdumb/ccc-glyphs",), "full": ("rdumb/ccc",)},
    of_runs=table,
    claims=(
        Claim(
            "at every difficulty RDumb is above EATA, whatever the speed",
            lambda t: [
                t.gain("RDumb", "EATA", *(c for c in t.columns if c.startswith(level)))
                for level in CCC
            ],
        ),
    ),
    remark="The papers print 34, 17 and 2 % for the three difficulties: these are the source model's "
    "accuracies on the stream, whose random crops lower the calibration's 40, 20 and 0.",
)
