"""Table 2: errors of the estimates over 15 corruptions in a row, without a reset in between."""

from ..artefact import Artefact
from .t1 import CLAIMS, SUITES, errors

ARTEFACT = Artefact(
    name="aetta/T2",
    shows="errors of accuracy estimates without labels, corruptions in a row",
    suites={"embedded": ("estimators-glyphs",), "full": SUITES},
    of_runs=errors,
    claims=CLAIMS,
    only={"setting": ("Continual *",)},
    published="T2",
    remark="The last line is the mean over baselines and data sets; see Table 1.",
    why=(
        "AETTA divides by the entropy of 500 classes, which a batch of 64 images cannot reach: its "
        "estimates are too low by 14 points (aetta/Why). And its dropout is too strong for so small a "
        "network: a rate of 0.1 takes a third of the error away (aetta/Ablation)."
    ),
)
