"""Figure 3: the confidence of the mean prediction under dropout against its accuracy."""

import numpy as np

from ....run_folder import CALIBRATION
from ...results.run_statistics import Values, paired
from ...results.runs import Run, grouped
from ..table import Table

CURVES = {"accuracy": "accuracy", "CPC": "confidence", "RCPC": "corrected"}
FAILING = ("TENT", "EATA")


def table(runs: list[Run]) -> Table:
    """Accuracy, CPC and RCPC in percent by confidence bin; one panel per method."""
    found = Table(unit="probability of being right, %", axis="confidence under dropout, %")
    errors: dict[str, dict[str, Values[str]]] = {}
    for method, same in grouped([run for run in runs if run.adapts], lambda r: r.label).items():
        for run in same:
            sums = calibration(run)
            if sums is None:
                continue
            bins = len(sums["images"])
            for n in np.flatnonzero(sums["images"]):
                for curve, name in CURVES.items():
                    value = 100 * float(sums[name][n] / sums["images"][n])
                    x = round(100 * (n + 0.5) / bins, 6)
                    found.add(method, curve, x, f"seed {run.seed}", value)
            for name in ("confidence", "corrected"):
                own = errors.setdefault(method, {}).setdefault(name, {})
                own[f"seed {run.seed}"] = gap(sums, name)
    for method, both in errors.items():
        plain, robust = (np.mean(list(both[n].values())) for n in ("confidence", "corrected"))
        text = f"{plain:.1f}, {robust:.1f}"
        found.notes.append(f"{method}: calibration error of CPC and RCPC {text} points")
    failing = [own for method, own in errors.items() if method in FAILING]
    found.intervals["robust-nearer"] = [paired(o["confidence"], o["corrected"]) for o in failing]
    found.intervals["plain-alike"] = [
        paired(dict.fromkeys(own["confidence"], 10.0), own["confidence"])
        for method, own in errors.items()
        if method not in FAILING
    ]
    return found


def calibration(run: Run) -> dict[str, np.ndarray] | None:
    """The sums of DropoutCalibration by bin; None for a run without it."""
    path = run.folder / CALIBRATION.format("AETTA")
    if not path.exists():
        return None
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def gap(sums: dict[str, np.ndarray], name: str) -> float:
    """The expected calibration error in points: the mean over images of |mean - accuracy| of their bin."""
    return 100 * float(np.abs(sums[name] - sums["accuracy"]).sum() / sums["images"].sum())
