"""Figure 3: the confidence of the mean prediction under dropout against how often it is right."""

import numpy as np

from ....run_folder import CALIBRATION
from ...results.runs import Run, grouped
from ...results.statistics import Difference, Values, paired
from ..artefact import Artefact
from ..table import Claim, Table
from .t2 import ARTEFACT as TABLE_2

CURVES = {"accuracy": "accuracy", "CPC": "confidence", "RCPC": "corrected"}
NEARER = "robust calibration (RCPC) is nearer to the accuracy than plain calibration (CPC)"
ALIKE = "plain calibration (CPC) is within ten points of the accuracy"
FAILING = ("TENT", "EATA")


def table(runs: list[Run]) -> Table:
    """By the bin of confidence, rows "method: accuracy", "method: CPC" and "method: RCPC", in percent."""
    found = Table([], {}, "probability of being right, %", "confidence under dropout, %")
    errors: dict[str, dict[str, Values[str]]] = {}
    for method, same in grouped([run for run in runs if run.adapts], lambda r: r.label).items():
        for run in same:
            sums = calibration(run)
            if sums is None:
                continue
            bins = len(sums["images"])
            found.columns = [f"{100 * (n + 0.5) / bins:g}" for n in range(bins)]
            for n in np.flatnonzero(sums["images"]):
                for curve, name in CURVES.items():
                    value = 100 * float(sums[name][n] / sums["images"][n])
                    found.add(f"{method}: {curve}", found.columns[n], f"seed {run.seed}", value)
            for name in ("confidence", "corrected"):
                errors.setdefault(method, {}).setdefault(name, {})[f"seed {run.seed}"] = gap(
                    sums, name
                )
    for method, own in errors.items():
        means = ", ".join(
            f"{np.mean(list(own[n].values())):.1f}" for n in ("confidence", "corrected")
        )
        found.notes.append(f"{method}: calibration error of CPC and RCPC {means} points")
    failing = [own for method, own in errors.items() if method in FAILING]
    found.intervals[NEARER] = [paired(own["confidence"], own["corrected"]) for own in failing]
    found.intervals[ALIKE] = [
        paired(dict.fromkeys(own["confidence"], 10.0), own["confidence"])
        for method, own in errors.items()
        if method not in FAILING
    ]
    return found


def calibration(run: Run) -> dict[str, np.ndarray] | None:
    """The sums of DropoutCalibration by bin; None if the run has none."""
    path = run.folder / CALIBRATION.format("AETTA")
    if not path.exists():
        return None
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def gap(sums: dict[str, np.ndarray], name: str) -> float:
    """The expected calibration error in points: the mean over images of the bins' |mean - accuracy|."""
    return 100 * float(np.abs(sums[name] - sums["accuracy"]).sum() / sums["images"].sum())


def found_before(claim: str) -> Claim:
    """A claim whose differences were found with the table."""
    return Claim(claim, lambda t: list[Difference | None](t.intervals.get(claim) or [None]))


ARTEFACT = Artefact(
    name="aetta/Fig3",
    shows="calibration of the mean prediction under dropout, plain and robust, for six methods",
    suites=TABLE_2.suites,
    of_runs=table,
    claims=(
        Claim(f"where TENT and EATA fail, {NEARER}", found_before(NEARER).differences),
        Claim(f"where methods do not fail, {ALIKE}", found_before(ALIKE).differences),
    ),
    only=TABLE_2.only,
    remark="CPC takes the confidence for the probability of being right; RCPC takes "
    "1 - b (1 - confidence), b from each batch's balance, at least 1/C.",
)
