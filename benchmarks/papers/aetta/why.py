"""Why AETTA is too low on many classes: its largest entropy is one that a batch cannot have."""

from typing import Any

from ...results.runs import Run, grouped
from ...results.statistics import Difference, Values, average, paired
from ..artefact import Artefact
from ..table import Claim, Table
from .fig5 import add_errors
from .t1 import points
from .t2 import ARTEFACT as TABLE_2

CHOICES: dict[str, dict[str, Any]] = {
    "AETTA": {},
    "AETTA, E_max of the batch": {"of_batch": True},
    "disagreement alone": {"alpha": 0},
}
TOO_HIGH = ": too high by"


def table(runs: list[Run]) -> Table:
    """Mean absolute errors, and by how much estimates are too high, by method; then other estimators."""
    found = Table([], {}, "points")
    methods = grouped([run for run in runs if run.adapts], lambda run: run.label)
    for name, choice in CHOICES.items():
        for row, signed in ((name, False), (name + TOO_HIGH, True)):
            for method, same in methods.items():
                add_errors(found, row, method, same, signed=signed, **choice)
    names = dict.fromkeys(n for same in methods.values() for n in same[0].estimators)
    for name in (name for name in names if name != "AETTA"):
        cells = {method: points(same, f"{name}_error") for method, same in methods.items()}
        found.rows[name] = cells
    for cells in found.rows.values():
        cells["Avg"] = average([cells.get(method, {}) for method in methods])
    found.columns = [*methods, "Avg"]
    return found


def below_zero(values: Values[str]) -> Difference | None:
    """By how much the values are below 0."""
    return paired(dict.fromkeys(values, 0.0), values)


def others(t: Table) -> list[str]:
    return [row for row in t.rows if row.removesuffix(TOO_HIGH) not in CHOICES]


ARTEFACT = Artefact(
    name="aetta/Why",
    shows="AETTA's estimates with the largest entropy that a batch can have, from the log of Table 2",
    suites=TABLE_2.suites,
    of_runs=table,
    claims=(
        Claim(
            "AETTA is too low: its estimates are below the accuracy",
            lambda t: [below_zero(t.rows["AETTA" + TOO_HIGH]["Avg"])],
        ),
        Claim(
            "with E_max of the batch it has less error than with that of all classes",
            lambda t: [t.gain("AETTA", "AETTA, E_max of the batch", "Avg")],
        ),
        Claim(
            "and less than every other estimator",
            lambda t: [t.gain(row, "AETTA, E_max of the batch", "Avg") for row in others(t)],
        ),
    ),
    only=TABLE_2.only,
    remark="AETTA divides the entropy of a batch's mean prediction by ln C. A batch of B images that is "
    "sure of its classes reaches at most ln B: with 64 images and 500 classes 0.67 of it, so that b is "
    "at least 3.3 even for a perfect model; with 10 classes nothing is lost. Nothing is fitted here: B is "
    "the size of the batches.",
    why=(
        "With the entropy that a batch can reach the estimates are no more too low but too high, by "
        "eight points; AdvPerturb and SoftmaxScore stay better here."
    ),
)
