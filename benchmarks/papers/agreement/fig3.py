"""Figure 3: models of several bases as one ensemble (section 4), and probes of raw pixels (section 3.3)."""

from .evidence import Ensemble
from .setting import LINEAR, OFF, digits, lines_artefact
from .terms import Statement, Term, each, error, less, r2, slope_gap

BASES = Ensemble("digits", ("probe", "probe-relu"), "head-1")
FEATURES, RELU, PIXELS = (digits(name) for name in ("probe", "probe-relu", "probe-pixels"))
R2, ALL = r2("accuracy"), (*LINEAR, *OFF)

ARTEFACT = lines_artefact(
    name="agreement/Fig3",
    shows="probes of several bases as one ensemble, and of raw pixels (C4, C6)",
    ensembles=[BASES, FEATURES, RELU, PIXELS],
    statements=[
        Statement(
            "C4: probes of two bases are on one accuracy line",
            each(r2("accuracy"), [BASES], LINEAR),
        ),
        Statement("C4: so is their agreement", each(r2("agreement"), [BASES], LINEAR)),
        Statement(
            "C4: both bases together fit one accuracy line worse than each by itself, contrast included",
            [[Term(1, R2, base, ALL), Term(-1, R2, BASES, ALL)] for base in (FEATURES, RELU)],
        ),
        Statement(
            "C6: slopes differ more for probes of pixels than of features",
            less(slope_gap, FEATURES, [PIXELS], LINEAR),
        ),
        Statement(
            "C6: ALine-S errs more for probes of pixels than of features",
            less(error, FEATURES, [PIXELS], LINEAR),
        ),
    ],
    drawn={shift: [BASES, FEATURES, PIXELS] for shift in ("fog", "contrast")},
    remark="The paper says of language models that all bases share one line, and of vision models that "
    "they need not.",
)
