"""Disagreement of models that were trained independently, beside that of one model at two steps."""

from ...results.runs import Run, grouped
from ..artefact import Artefact
from ..table import Claim, Table
from .t1 import points

ONE, SEVERAL = "GDE", "IndependentGDE"
BOTH_ADAPT = "TENT-others by TENT"


def table(runs: list[Run]) -> Table:
    """Mean absolute errors over corruptions: methods down, the two kinds of disagreement across."""
    rows = {
        label: {name: points(same, f"{name}_error") for name in (ONE, SEVERAL)}
        for label, same in grouped(runs, lambda run: run.label).items()
    }
    return Table([ONE, SEVERAL], rows, "mean absolute error, points")


ARTEFACT = Artefact(
    name="aetta/GDE",
    shows="errors of disagreement: of one model at two steps, and of three trained independently",
    suites={"embedded": ("aetta/gde-digits",)},
    of_runs=table,
    claims=(
        Claim(
            "where all adapt, models trained independently have less error than one at two steps",
            lambda t: [t.step(BOTH_ADAPT, ONE, SEVERAL)],
        ),
    ),
    trains={
        f"runs/source/digits-seed{seed}.safetensors": ("digits", "--seed", str(seed))
        for seed in (1, 2)
    },
    remark="Jiang et al. (2022) compare models trained independently; AETTA, which has one, compares its "
    "weights before and after a step. The paper has no such table. With others that are frozen it says how "
    "near the adapted model is to the source models.",
)
