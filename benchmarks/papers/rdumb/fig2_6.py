"""Figures 2.6a-b and A.1: a 2-D toy in which Tent gains, then stays or collapses (thesis, app. A.1)."""

import numpy as np

from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Claim, Table
from . import toy

CONDITIONS = {"condition 1": (4.0, False), "condition 2": (25.0, False), "eq. A.4": (25.0, True)}
SIZES = {"embedded": (20_000, 20_000), "full": (300_000, 60_000)}  # points, steps
SEEDS = (0, 1, 2)


def table(scale: str, cells: list[Cell]) -> Table:
    """Accuracy, entropy and size of the scale by the step of adaptation, in each condition."""
    return dynamics(*SIZES[scale])


def dynamics(points: int, steps: int) -> Table:
    """The same for so many points and steps."""
    at = sorted({0, *np.geomspace(1, steps, 24).astype(int).tolist()})
    unit = "accuracy, %; entropy, nats / 100; norm of the scale"
    found = Table([str(step) for step in at], {}, unit, "step of adaptation (logarithmic)")
    for name, (variance, literal) in CONDITIONS.items():
        for seed in SEEDS:
            clean, corrupted, labels = toy.data(points, variance, seed, literal)
            model = toy.trained(clean, labels, np.random.default_rng([seed, 1]))
            for step, accuracy, entropy, size in toy.adapted(corrupted, labels, *model, at):
                numbers = {"accuracy": 100 * accuracy, "entropy": 100 * entropy, "scale": size}
                for measure, number in numbers.items():
                    found.add(f"{measure}: {name}", str(step), f"seed {seed}", number)
    return found


def best(t: Table, row: str) -> str:
    """The step at which a row is highest."""
    return max(t.columns, key=lambda c: t.mean(row, c) or 0)


ARTEFACT = Artefact(
    name="rdumb/Fig2.6",
    shows="a 2-D toy: Tent on batch norm and logistic regression, stable or collapsing",
    suites={"embedded": (), "full": ()},
    computed=table,
    claims=(
        Claim(
            "condition 1 is stable: it ends less than five points from where it began",
            lambda t: t.near("accuracy: condition 1", t.columns[-1], "0", 5),
        ),
        Claim(
            "condition 2 gains at first",
            lambda t: [
                t.step("accuracy: condition 2", best(t, "accuracy: condition 2"), "0")
                if best(t, "accuracy: condition 2") != "0"
                else t.step("accuracy: condition 2", t.columns[1], "0")
            ],
        ),
        Claim(
            "condition 2 collapses: it ends ten points or more below its beginning",
            lambda t: [t.fall("accuracy: condition 2", "0", t.columns[-1], by=10)],
        ),
        Claim(
            "the scale grows in both",
            lambda t: [t.step(f"scale: condition {n}", t.columns[-1], "0") for n in (1, 2)],
        ),
        Claim(
            "with the covariance that eq. A.4 prints, condition 2 collapses as well",
            lambda t: [t.fall("accuracy: eq. A.4", "0", t.columns[-1], by=10)],
        ),
    ),
    remark="The text turns the noise with the data; eq. A.4 turns it the other way, and then nothing "
    "collapses. The embedded scale has 20,000 points and 20,000 steps, the paper 300,000 and 60,000.",
    why=(
        "The claim is here to tell eq. A.4 from the text: with the text's turn condition 2 does "
        "collapse."
    ),
)
