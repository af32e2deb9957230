"""Table 3: what recovery adds to the accuracy over 15 corruptions in a row."""

from ...results.runs import Run, grouped
from ...results.statistics import Values, average
from ..artefact import Artefact
from ..table import Claim, Table
from .t1 import points


def gains(runs: list[Run]) -> Table:
    """Accuracy gained over the method alone, in points: schemes by method, and their average."""
    accuracy = {
        variant: points(same, "accuracy")
        for variant, same in grouped(runs, lambda run: run.variant).items()
    }
    methods = list(dict.fromkeys(method for method, _ in accuracy))
    rows: dict[str, dict[str, Values[str]]] = {}
    for scheme in (s for s in dict.fromkeys(scheme for _, scheme in accuracy) if s):
        row = {}
        for method in methods:
            before, after = accuracy.get((method, ""), {}), accuracy.get((method, scheme), {})
            row[method] = {seed: after[seed] - before[seed] for seed in after if seed in before}
        rows[scheme] = {**row, "Avg": average(row.values())}
    return Table([*methods, "Avg"], rows, "accuracy gained, points")


ARTEFACT = Artefact(
    name="aetta/T3",
    shows="accuracy gained by recovery: six schemes of resetting or restoring",
    suites={"embedded": ("recovery-glyphs",), "full": ("aetta-recovery",)},
    of_runs=gains,
    claims=(
        Claim(
            "AETTA's reset gains more than every other scheme, averaged over the methods",
            lambda t: [t.gain("AETTA", row, "Avg") for row in t.rows if row != "AETTA"],
        ),
    ),
    published="T3",
    remark="The caption does not name the data set; CIFAR-100-C is our reading.",
    why=(
        "A corruption lasts for 4 batches here. AETTA compares the last five estimates with the five "
        "before, so that it hears of a change only two corruptions later; DistShift is told of it, "
        "and Episodic never needs to know."
    ),
)
