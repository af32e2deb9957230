"""Figure 3.6: f through the flips of the hold-out, and its estimates against the truth elsewhere."""

from pathlib import Path

import numpy as np

from ...results.pictures import pyplot, saved
from ...results.runs import Run
from ...results.statistics import paired
from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Claim, Table
from .families import METHODS, SUITES, fitted, parted

FITTED, OTHERS = "fitted", "others"
NEAR = 6.0  # points, of the mean error; Table 3.1 has 5.75


def table(runs: list[Run]) -> Table:
    """Rows "fitted: STREAM" and "others: STREAM": flips, accuracy and estimate."""
    held, rest = parted(runs)
    f = fitted(held)
    found = Table(["flips", "accuracy", "estimate"], {}, "flips of 1,000; accuracy, %")
    if f is None:
        return found
    errors: dict[str, float] = {}
    for part, points in ((FITTED, held), (OTHERS, rest)):
        for point in points:
            row, place = f"{part}: {point.run.stream}", point.run.place
            estimate = 100 * f(point.flips[True])
            found.add(row, "flips", place, point.flips[True])
            found.add(row, "accuracy", place, 100 * point.accuracy)
            found.add(row, "estimate", place, estimate)
            if part == OTHERS:
                errors[place] = abs(estimate - 100 * point.accuracy)
    terms = ", ".join(f"{c:.5g}" for c in f.coefficients)
    found.notes.append(f"f has the coefficients {terms}, highest degree first")
    found.intervals[OTHERS] = [paired(dict.fromkeys(errors, NEAR), errors)]
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Left the points and f, right the estimates against the truth."""
    plt = pyplot()

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for part, colour in ((OTHERS, "0.6"), (FITTED, "#d62728")):
        rows = [row for row in found.rows if row.startswith(part)]
        flips, truth, estimate = (
            np.array([found.mean(row, column) for row in rows], dtype=float)
            for column in found.columns
        )
        left.plot(flips, truth, "o", ms=4, color=colour, label=part)
        right.plot(truth, estimate, "o", ms=4, color=colour, label=part)
    shown = sorted(
        (found.mean(row, "flips") or 0, found.mean(row, "estimate") or 0) for row in found.rows
    )
    left.plot(*zip(*shown, strict=True), color="black", lw=1.2, label="f")
    right.plot([0, 100], [0, 100], color="black", lw=0.8)
    left.set_xlabel("weighted flips of 1,000")
    left.set_ylabel("accuracy, %")
    right.set_xlabel("accuracy, %")
    right.set_ylabel("estimate, %")
    left.legend(frameon=False, fontsize=8)
    return saved(figure, path)


ARTEFACT = Artefact(
    name="flips/Fig3.6",
    shows="f through the flips of the hold-out corruptions; its estimates against the truth elsewhere",
    suites=SUITES,
    of_runs=table,
    claims=(
        Claim(
            f"on other data sets the estimates are within {NEAR:g} points of the truth in the mean",
            lambda t: t.intervals.get(OTHERS) or [None],
        ),
    ),
    only={"method": METHODS},
    picture=picture,
    remark="The thesis prints f(x) = 0.00036 x^2 - 0.32 x + 75.66 for ResNet-50.",
)
