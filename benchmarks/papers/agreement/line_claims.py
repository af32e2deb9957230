"""Claims about lines and estimators; does not import torch, so that judging is fast.

A claim about lines uses only the shifts on which accuracy is on a line (mean R² over the seeds above 0.95)
for every compared ensemble; the paper lists the others separately. The runs are the seeds.
"""

from collections.abc import Callable

import numpy as np

from ...results.run_statistics import Values, above_zero, average, paired
from ..primitives import Part
from ..table import Table

LEAST_R2 = 0.95
ACCURACY_R2 = "accuracy R²"


def values(table: Table, ensemble: str, shift: str, measure: str) -> Values[str]:
    """One of MEASURES for each seed."""
    columns = {x: table.values(ensemble, shift, x) for x in table.xs}
    runs = columns.get(ACCURACY_R2, {})
    return {
        run: MEASURES[measure]({str(x): own[run] for x, own in columns.items()}) for run in runs
    }


Numbers = dict[str, float]


def slope_gap(own: Numbers) -> float:
    """The absolute difference between the slopes of the agreement and accuracy lines."""
    return abs(own["agreement slope"] - own["accuracy slope"])


def bias_gap(own: Numbers) -> float:
    """The absolute difference between the biases of the agreement and accuracy lines."""
    return abs(own["agreement bias"] - own["accuracy bias"])


def error(own: Numbers) -> float:
    """The mean error of ALine-S over the models."""
    return own["ALine-S error"]


def excess_inside(own: Numbers) -> float:
    """|mean agreement - mean accuracy| in distribution."""
    return abs(own["excess ID"])


def excess_outside(own: Numbers) -> float:
    """Mean agreement minus mean accuracy out of distribution."""
    return own["excess OOD"]


def nearer_diagonal(own: Numbers) -> float:
    """The distance of the agreement line's slope from the accuracy line's, minus its distance from 1."""
    return slope_gap(own) - abs(own["agreement slope"] - 1)


MEASURES: dict[str, Callable[[Numbers], float]] = {  # measures of one ensemble on one shift
    "slope gap": slope_gap,
    "bias gap": bias_gap,
    "error": error,
    "excess ID": excess_inside,
    "excess OOD": excess_outside,
    "nearer to the diagonal": nearer_diagonal,
}


def linear(table: Table, ensembles: list[str]) -> list[str]:
    """The shifts on which the accuracies of all these ensembles are on a line."""
    return [
        shift
        for shift in table.curves()
        if all((table.mean(e, shift, ACCURACY_R2) or 0) > LEAST_R2 for e in ensembles)
    ]


def over(table: Table, ensemble: str, shifts: list[str], name: str) -> Values[str]:
    """The mean of a measure over shifts, for each seed."""
    return average([values(table, ensemble, shift, name) for shift in shifts])


def on_a_line(
    table: Table, ensembles: list[str], shifts: list[str], of: str = "accuracy"
) -> list[Part]:
    """Claim: R² exceeds 0.95 on each shift (for agreement: on each shift with accuracy on a line)."""
    return [
        Part(
            f"{ensemble}, {shift}", above_zero(table.values(ensemble, shift, f"{of} R²")), LEAST_R2
        )
        for ensemble in ensembles
        for shift in (shifts if of == "accuracy" else linear(table, [ensemble]))
    ]


def off_the_line(table: Table) -> list[Part]:
    """Claim: for each ensemble, R² of agreement is below the limit wherever R² of accuracy is."""
    return [
        Part(f"{e}, {shift}", above_zero(table.values(e, shift, "agreement R²")), most=LEAST_R2)
        for e in table.panels
        for shift in table.curves(e)
        if (table.mean(e, shift, ACCURACY_R2) or 0) <= LEAST_R2
    ]


def nearest(table: Table, measure: str, ensemble: str, than: list[str]) -> list[Part]:
    """Claim: a measure of one ensemble is smaller than those of the others."""
    shifts = linear(table, [ensemble, *than])
    own = over(table, ensemble, shifts, measure)
    return [
        Part(f"{other} - {ensemble}", paired(over(table, other, shifts, measure), own), 0)
        for other in than
    ]


def above_zero_on_lines(table: Table, measure: str, ensembles: list[str]) -> list[Part]:
    """Claim: a measure of each ensemble is above 0."""
    return [Part(e, above_zero(over(table, e, linear(table, [e]), measure)), 0) for e in ensembles]


def gains_less(table: Table, training: str, than: str, head: str, others: list[str]) -> list[Part]:
    """Claim: ALine-S's error rises less from random heads to other sources than with other training."""
    names = [f"{place}{source}" for place in (training, than) for source in (head, *others)]
    shifts = linear(table, names)
    parts = []
    for other in others:
        mine, theirs = (
            {
                run: value - over(table, f"{place}{head}", shifts, "error")[run]
                for run, value in over(table, f"{place}{other}", shifts, "error").items()
            }
            for place in (training, than)
        )
        parts.append(Part(f"{other} - {head}", paired(theirs, mine), 0))
    return parts


def slopes_within(table: Table, ensembles: list[str], limit: float) -> list[Part]:
    """Claim: the slopes of both lines differ by less than a limit for each ensemble."""
    gaps = {e: over(table, e, linear(table, [e]), "slope gap") for e in ensembles}
    return [Part(e, above_zero(own), most=limit) for e, own in gaps.items()]


def fits_worse(table: Table, ensemble: str, than: list[str]) -> list[Part]:
    """Claim: the mean R² of the accuracy line over all shifts is below that of the other ensembles."""
    own, *others = (
        average([table.values(e, shift, ACCURACY_R2) for shift in table.curves(e)])
        for e in (ensemble, *than)
    )
    return [
        Part(f"{name} - {ensemble}", paired(other, own), 0)
        for name, other in zip(than, others, strict=True)
    ]


def best_errs_less(
    table: Table, panel: str, ours: list[str], than: list[str], each: bool = False
) -> list[Part]:
    """Claim: the smallest error of some estimators is below that of others, on average or in each row."""
    rows: dict[str, Values[str]] = {}
    for curve in table.curves(panel):
        best = [
            {
                run: min(table.values(panel, curve, x).get(run, np.inf) for x in names)
                for run in table.values(panel, curve, names[0])
            }
            for names in (than, ours)
        ]
        rows[curve] = {run: best[0][run] - best[1][run] for run in best[0] if run in best[1]}
    parts = rows if each else {"": average(rows.values()) if rows else {}}
    return [Part(name, above_zero(gaps), 0) for name, gaps in parts.items()]
