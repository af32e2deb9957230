"""Figure 2.5b: how fast methods adapt after a reset or a change of corruption (thesis §2.6)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..curves import since
from ..table import Claim, Table

CHANGE, RESET = "since the corruption changed", "since the last reset"


def table(runs: list[Run]) -> Table:
    """Accuracy less batch statistics' on the same batches, by the steps since either event."""
    found = since(runs, CHANGE, lambda rows: [row["corruptions"] for row in rows])
    resets = [run for run in runs if run.resets]
    count = since(resets, RESET, lambda rows: running_sum([row["reset"] for row in rows]))
    columns = list(dict.fromkeys([*found.columns, *count.columns]))
    return Table(sorted(columns, key=int), found.rows | count.rows, found.unit, found.axis)


def running_sum(numbers: list[float]) -> list[float]:
    total, sums = 0.0, []
    for number in numbers:
        sums.append(total := total + number)
    return sums


def early(t: Table) -> list[str]:
    """The columns of the first steps."""
    return t.columns[:3]


ARTEFACT = Artefact(
    name="rdumb/Fig2.5b",
    shows="ETA, EATA and RDumb over BN by the steps since a reset or a change of corruption",
    suites={"embedded": ("rdumb/ccc-glyphs",), "full": ("rdumb/ccc",)},
    of_runs=table,
    claims=(
        Claim(
            "soon after a reset RDumb gains more than EATA does soon after a change",
            lambda t: [t.gain(f"{RESET}: RDumb", f"{CHANGE}: EATA", *early(t))],
        ),
        Claim(
            "RDumb gains more the longer its last reset is ago",
            lambda t: [t.step(f"{RESET}: RDumb", last(t, f"{RESET}: RDumb"), t.columns[0])],
        ),
    ),
    only={"method": ("BNAdapt", "ETA", "EATA", "RDumb"), "setting": ("CCC-Medium",)},
    why=(
        "After a reset RDumb begins at batch statistics, with no gain; after a change of corruption "
        "EATA still has what it learned from the one before, which here helps with the next: four "
        "points from the first step on."
    ),
)


def last(t: Table, row: str) -> str:
    """The last column that a row has."""
    return [c for c in t.columns if c in t.rows.get(row, {})][-1] if row in t.rows else ""
