"""Table 2.3: source model, EATA and RDumb with other networks on CCC-Hard (thesis §2.5)."""

from ..artefact import Artefact
from ..table import Claim
from . import GROUPNORM, WIDTHS
from .t2_2 import backbones

ARTEFACT = Artefact(
    name="rdumb/T2.3",
    shows="source model, EATA and RDumb with several networks on CCC-Hard",
    suites={"embedded": ("rdumb/backbones-glyphs",), "full": ("rdumb/backbones",)},
    of_runs=backbones,
    claims=(
        Claim("over all networks RDumb is above EATA", lambda t: [t.gain("RDumb", "EATA")]),
        Claim(
            "over all networks RDumb is above the source model",
            lambda t: [t.gain("RDumb", "Source")],
        ),
    ),
    only={"setting": ("CCC-Hard",)},
    published="T2.3",
    remark="The printed source row has 24.3 for RN50 and 15.6 for RNXt101, both with AugMix and DeepAug: "
    "beside Table 2.2 they look swapped.",
    trains=WIDTHS | GROUPNORM,
)
