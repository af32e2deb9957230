"""Table A.4: the weight of EATA's regulariser with a ViT on CCC-Medium (thesis, app. A.4)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table, accuracies


def table(runs: list[Run]) -> Table:
    """EATA with a ViT by the weight."""
    return accuracies(runs, lambda run: "EATA ViT-B/16", lambda run: run.override)


ARTEFACT = Artefact(
    name="rdumb/TA.4",
    shows="EATA with a ViT on CCC-Medium by the weight of its regulariser",
    suites={"full": ("rdumb/beta-vit",)},
    of_runs=table,
    claims=(
        Claim(
            "2,000 is better than 3,000, and that than 4,000",
            lambda t: [
                t.step("EATA ViT-B/16", "2000", "3000"),
                t.step("EATA ViT-B/16", "3000", "4000"),
            ],
        ),
    ),
    only={"setting": ("CCC-Medium",)},
    published="TA.4",
    remark="No embedded network lacks batch normalisation yet: this is of the full scale only.",
)
