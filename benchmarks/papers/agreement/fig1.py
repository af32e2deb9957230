"""Figures 1 and 2: linear probes of one base whose heads, orders of the data, or subsets of it differ."""

from .setting import FAIR, LINEAR, PROBES, glyphs, lines_artefact
from .terms import (
    Statement,
    bias_gap,
    each,
    error,
    excess_inside,
    excess_outside,
    less,
    nearer_diagonal,
    r2,
    slope_gap,
)

RANKED = (("slope", slope_gap), ("bias", bias_gap), ("ALine-S's error", error))
HEAD, ORDER, SUBSET = PROBES

ARTEFACT = lines_artefact(
    name="agreement/Fig1",
    shows="probes of one base: only random heads put agreement on the accuracy line (C1, C7)",
    ensembles=[*PROBES, *FAIR[:2], glyphs("subset-0.3"), glyphs("subset-0.5")],
    statements=[
        Statement(
            "C1: accuracy is on a line with each source", each(r2("accuracy"), PROBES, LINEAR)
        ),
        Statement(
            "C1: agreement is on a line with each source", each(r2("agreement"), PROBES, LINEAR)
        ),
        *(
            Statement(f"C1{where}: {what} is nearest with random heads", less(of, *sources, LINEAR))
            for sources, where in (
                ((HEAD, PROBES[1:]), ""),
                ((FAIR[0], FAIR[1:]), ", all on a shared tenth"),
            )
            for what, of in RANKED
        ),
        Statement(
            "C1: with orders and subsets agreement is nearer to y = x than to the accuracy line",
            each(nearer_diagonal, PROBES[1:], LINEAR),
        ),
        Statement(
            "C7: in distribution agreement equals accuracy best with subsets",
            less(excess_inside, SUBSET, [HEAD, ORDER], LINEAR),
        ),
        Statement(
            "C7: out of distribution subsets agree more than they are right, by more than random heads",
            less(excess_outside, HEAD, [SUBSET], LINEAR),
        ),
    ],
    drawn={shift: PROBES for shift in ("gaussian_noise", "fog")},
)
