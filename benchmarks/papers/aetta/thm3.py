"""Theorems 3.1 and 3.2: disagreement under dropout and the error, simulated (Lee et al. 2024, §3)."""

from ...results.statistics import Difference
from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Claim, Table
from . import theorems

SEEDS = tuple(range(5))
IMAGES = {"embedded": 20_000, "full": 200_000}
PASSES = 10
A, FACTORS = 0.2, (1.5, 2.0, 4.0)  # of the over-confident class and of the others


def table(scale: str, cells: list[Cell]) -> Table:
    """Error, disagreement, the theorem's value and AETTA's estimate, by how over-confident a class is."""
    columns = {"calibrated": None, **{f"b = {b:g}": b for b in FACTORS}}
    found = Table(list(columns), {}, "%")
    for column, b in columns.items():
        for seed in SEEDS:
            size = IMAGES[scale]
            if b is None:
                measured = theorems.calibrated(size, PASSES, seed)
            else:
                measured = theorems.overconfident(size, PASSES, seed, A, b)
            for name, number in measured._asdict().items():
                found.add(name, column, f"seed {seed}", 100 * number)
    return found


ARTEFACT = Artefact(
    name="aetta/Thm3",
    shows="disagreement under dropout against the error, where the theorems' conditions hold",
    suites={"embedded": (), "full": ()},
    computed=table,
    claims=(
        Claim(
            "calibrated, the disagreement is the error within a point (Theorem 3.1)",
            lambda t: within(t, "disagreement", "calibrated"),
        ),
        Claim(
            "with an over-confident class the disagreement is below the error",
            lambda t: [t.gain("error", "disagreement", c) for c in t.columns[1:]],
        ),
        Claim(
            "b PDD - C is the error within a point then (Theorem 3.2)",
            lambda t: [d for c in t.columns[1:] for d in within(t, "theorem", c)],
        ),
        Claim(
            "AETTA's weight by the entropy alone comes nearer to the error than the disagreement",
            lambda t: (
                [t.gain("aetta", "disagreement", c) for c in t.columns[1:]]
                + [t.more("error", "aetta", c, by=-1) for c in t.columns[1:]]
            ),
        ),
    ),
    remark="Hypotheses, labels and passes are drawn; nothing is trained. b is what the theorem assumes, "
    f"a is {A:g}; h~ of the over-confident class follows from both.",
    why=(
        "The weight adds more than the disagreement is too low by, where hypotheses are over- "
        "confident as the theorem assumes: it overshoots."
    ),
)


def within(t: Table, row: str, column: str, points: float = 1.0) -> list[Difference | None]:
    """What is above 0 if a row is within so many points of the error."""
    return [
        t.more(one, other, column, by=-points) for one, other in ((row, "error"), ("error", row))
    ]
