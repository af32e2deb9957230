"""Figures 2.3 and A.4: accuracy over the stream, means over the runs (thesis §2.5)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..curves import over_images
from ..table import Claim, Table
from . import BOTH, CCC, METHODS


def table(runs: list[Run]) -> Table:
    """Accuracy of all methods over the stream, by data set."""
    return over_images(runs, panel=lambda run: run.setting, rows=METHODS)


ARTEFACT = Artefact(
    name="rdumb/Fig2.3",
    shows="accuracy over CIN-C and CCC, means over the runs (with figure A.4)",
    suites=BOTH,
    of_runs=table,
    claims=(
        Claim(
            "at the end of CCC only BN, EATA and RDumb are above the source model",
            lambda t: [
                t.gain(f"{level}: {a}", f"{level}: {b}", t.columns[-1])
                for level in CCC
                for a, b in (
                    *((name, "Source") for name in ("BNAdapt", "EATA", "RDumb")),
                    *(("Source", name) for name in ("Tent", "RPL", "SLR", "CPL", "CoTTA")),
                )
            ],
        ),
    ),
    why=(
        "SLR does not collapse at any rate that was tried, and CoTTA hardly moves; RPL and ETA are "
        "still falling at the end of the 750 batches (see rdumb/T2.1)."
    ),
)
