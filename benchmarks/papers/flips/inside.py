"""Figures 3.1, 3.4, 3.5 and B.6, from the measurements of EmbeddingClusters and HoldOut."""

import numpy as np

from ....run_folder import EMBEDDINGS
from ...results.batch_means import severity
from ...results.runs import Run
from ..picture import correlated
from ..table import Table

CLUSTERS = ("silhouette", "shift", "accuracy")
PHASES = ("phase 1", "phase 2")
STARTS = SILHOUETTE, FLIPS, ACCURACY = (
    "silhouette x 100 at step 0",
    "label flips of 1,000",
    "accuracy",
)
PAIRS = ((SILHOUETTE, FLIPS), (ACCURACY, FLIPS), (ACCURACY, SILHOUETTE))
Measured = dict[int, dict[str, float]]  # by step


def measured(run: Run, observer: str, names: tuple[str, ...]) -> Measured:
    """The columns of an observer at the steps at which all of them are numbers."""
    found: Measured = {}
    for row in run.rows:
        columns = {name: row.get(f"{observer}_{name}") for name in names}
        values = {name: value for name, value in columns.items() if value is not None}
        if len(values) == len(names):
            found[row["step"]] = values
    return found


def clusters(run: Run) -> Measured:
    """Silhouette x 100, shift, and accuracy in percent of the held-out images."""
    return {
        step: {
            "silhouette": 100 * values["silhouette"],
            "shift": values["shift"],
            "accuracy": 100 * values["accuracy"],
        }
        for step, values in measured(run, "EmbeddingClusters", CLUSTERS).items()
    }


def peak(steps: Measured) -> int:
    """The first step with the highest accuracy."""
    return max(steps, key=lambda step: (steps[step]["accuracy"], -step))


def along(runs: list[Run]) -> Table:
    """Figure B.6: the measures by step, with one curve per severity."""
    unit = "silhouette x 100; shift distance; accuracy of held images, %"
    found = Table(unit=unit, axis="step")
    for name in CLUSTERS:
        for run in sorted(runs, key=severity):
            for step, values in clusters(run).items():
                curve = f"severity {severity(run)}"
                found.add(name, curve, step, run.place, values[name])
    return found


def ends(runs: list[Run]) -> Table:
    """Figure 3.1: the measures at the start, at the highest accuracy, and at the end."""
    found = Table(unit="silhouette x 100; shift distance; accuracy, %")
    for run in runs:
        steps = clusters(run)
        if (kept := run.folder / EMBEDDINGS).exists():  # the table uses the steps of the figure
            with np.load(kept) as arrays:
                steps = {step: steps[step] for step in arrays["steps"].tolist() if step in steps}
        at = {"start": min(steps), "early": peak(steps), "late": max(steps)}
        for name in CLUSTERS:
            for x, step in at.items():
                found.add("", name, x, run.place, steps[step][name])
        found.notes.append(
            f"{run.place}: start is step {at['start']}, early (best accuracy) {at['early']}, late "
            f"(last measurement) {at['late']}."
        )
    return found


def phases(runs: list[Run]) -> Table:
    """Figure 3.4: the change of each measure before and after the highest accuracy."""
    found = Table(unit="change of silhouette x 100, of shift distance, of accuracy in points")
    measures = {run.folder: clusters(run) for run in runs}
    for name in CLUSTERS:
        for phase in PHASES:
            for run in runs:
                steps = measures[run.folder]
                top = peak(steps)
                first, last = (min(steps), top) if phase == PHASES[0] else (top, max(steps))
                if first != last:  # accuracy rises, or falls
                    change = steps[last][name] - steps[first][name]
                    found.add(phase, name, run.setting, run.place, change)
    rises = [row.value > 0 for row in found.rows if row.curve == "silhouette"]
    if rises:
        share = 100 * sum(rises) / len(rises)
        found.notes.append(f"The silhouette rises in {share:.0f} % of {len(rises)} phases.")
    found.notes += [
        correlated(found, name, "accuracy", phase)
        for phase in PHASES
        for name in ("silhouette", "shift")
    ]
    return found


def at_the_start(runs: list[Run]) -> Table:
    """Figure 3.5: silhouette before the first step, flips after the last, and source accuracy."""
    found = Table(unit="by the row; accuracy, %")
    for run in (run for run in runs if run.adapts):
        flips = [v for row in run.rows if (v := row.get("WeightedFlips_unweighted")) is not None]
        flips = flips or [run.summary.get("WeightedFlips_unweighted")]
        source = None if run.source is None else run.source.accuracy
        if flips[0] is None or source is None:
            continue
        values = (clusters(run)[0]["silhouette"], flips[0], 100 * source)
        for name, value in zip(STARTS, values, strict=True):
            found.add("", name, run.setting, run.place, value)
    found.rows.sort(key=lambda row: STARTS.index(row.curve))
    found.notes = [correlated(found, *pair) for pair in PAIRS]
    return found
