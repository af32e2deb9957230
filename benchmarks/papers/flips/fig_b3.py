"""Figure B.3: errors of weighted flips and f by the number of held images."""

from functools import partial

from ..artefact import Artefact
from ..table import Claim
from .families import METHODS, SUITES
from .fig_b2 import table_of

ARTEFACT = Artefact(
    name="flips/FigB.3",
    shows="errors of weighted flips, and f, by the number of held images",
    suites=SUITES,
    of_runs=partial(table_of, "held"),
    claims=(
        Claim(
            "with 100 held images the error is at most two points above that with the most",
            lambda t: [t.more(next(iter(t.rows)), "100 held", "error", by=-2)],
        ),
    ),
    only={"method": METHODS},
)
