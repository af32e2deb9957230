"""Table A.4: the weight of EATA's regulariser with a ViT on CCC-Medium (thesis, app. A.4)."""

from itertools import pairwise

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table
from . import GROUPNORM
from .t2_4 import by_override


def table(runs: list[Run]) -> Table:
    """EATA without batch normalisation by the weight."""
    found = by_override(runs)
    found.axis = "weight of the regulariser"
    return found


ARTEFACT = Artefact(
    name="rdumb/TA.4",
    shows="EATA without batch normalisation on CCC-Medium by the weight of its regulariser",
    suites={"embedded": ("rdumb/beta-groupnorm-glyphs",), "full": ("rdumb/beta-vit",)},
    of_runs=table,
    claims=(
        Claim(
            "the first weight (2,000 in the paper) is better than the second (3,000), and that than the "
            "third (4,000)",
            lambda t: [t.step("EATA", *pair) for pair in pairwise(t.columns)],
        ),
    ),
    only={"setting": ("CCC-Medium",)},
    published="TA.4",
    remark="The paper's network is a ViT-B/16; the embedded one has group instead of batch normalisation. "
    "Embedded weights are a twentieth of the paper's. The paper's first version prints 34.7, 37.7, 27.0 "
    "and 16.3 for 1,000 to 4,000.",
    trains=GROUPNORM,
)
