"""What it changes that a reset clears memories: DistShift as AETTA's code has it, and clearing all."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table, accuracies

KEPT, CLEARED = "memories kept", "all cleared"
NAMES = {"": "no reset", "DistShift": KEPT, "DistShift, all cleared": CLEARED}


def table(runs: list[Run]) -> Table:
    """Accuracy by what is cleared and method."""
    return accuracies(
        runs, row=lambda r: NAMES[r.override], column=lambda r: r.method, rows=tuple(NAMES.values())
    )


ARTEFACT = Artefact(
    name="aetta/Resets",
    shows="resets at each change of the corruption that keep memories, and that clear them",
    suites={"embedded": ("aetta/resets-glyphs",), "full": ("aetta/resets",)},
    of_runs=table,
    claims=(
        Claim(
            "what is remembered makes less than a point of difference to RoTTA, SoTTA and EATA",
            lambda t: [
                t.more(*pair, method, by=-1)
                for method in t.columns
                for pair in ((KEPT, CLEARED), (CLEARED, KEPT))
            ],
        ),
    ),
    only={"method": ("EATA", "RoTTA", "SoTTA"), "override": tuple(NAMES)},
    remark="The paper says nothing of memories; its code keeps them. What is remembered are the images of "
    "RoTTA and SoTTA, and the average softmax of EATA.",
)
