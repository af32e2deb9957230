"""Table 2.2: source model, EATA and RDumb with other networks on CCC-Medium (thesis §2.5)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table, accuracies
from . import GROUPNORM, WIDTHS


def backbones(runs: list[Run]) -> Table:
    """Methods by network; the one without a name is the embedded network itself."""
    return accuracies(
        runs,
        row=lambda run: run.method,
        column=lambda run: run.override or "width16",
        rows=("Source", "EATA", "RDumb"),
    )


ARTEFACT = Artefact(
    name="rdumb/T2.2",
    shows="source model, EATA and RDumb with several networks on CCC-Medium",
    suites={"embedded": ("rdumb/backbones-glyphs",), "full": ("rdumb/backbones",)},
    of_runs=backbones,
    claims=(
        Claim("over all networks RDumb is above EATA", lambda t: [t.gain("RDumb", "EATA")]),
        Claim(
            "RDumb is above the source model with every network",
            lambda t: [t.gain("RDumb", "Source", c) for c in t.columns],
        ),
    ),
    only={"setting": ("CCC-Medium",)},
    published="T2.2",
    trains=WIDTHS | GROUPNORM,
    why=(
        "The network with group normalisation has no statistics of batches to gain from, and a "
        "learning rate that was chosen for batch normalisation. RDumb stays within three points of "
        "the source model there, where EATA falls to less than half of it."
    ),
)
