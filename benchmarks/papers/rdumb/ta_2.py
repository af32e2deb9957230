"""Table A.2: the weight of EATA's regulariser on the hold-out corruptions (thesis, app. A.4)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table
from .t2_4 import by_override


def table(runs: list[Run]) -> Table:
    """EATA by the weight."""
    found = by_override(runs)
    found.axis = "weight of the regulariser"
    return found


ARTEFACT = Artefact(
    name="rdumb/TA.2",
    shows="EATA on the hold-out corruptions by the weight of its regulariser",
    suites={"embedded": ("rdumb/beta-glyphs",), "full": ("rdumb/beta",)},
    of_runs=table,
    claims=(
        Claim(
            "the third weight (100 in the paper) is better than the last (2,000)",
            lambda t: [t.step("EATA", t.columns[2], t.columns[-1])],
        ),
        Claim(
            "beyond the third, more weight is worse",
            lambda t: [
                t.step("EATA", a, b) for a, b in zip(t.columns[2:], t.columns[3:], strict=False)
            ],
        ),
    ),
    published="TA.2",
    remark="Embedded weights are a twentieth of the paper's, as the learning rate is twenty times as high.",
)
