"""Figures 2.6c and A.2: the growth of the adapted weights of each layer (thesis §2.6)."""

import numpy as np

from ...results.run_statistics import paired
from ...results.runs import Run
from ..primitives import Part
from ..table import Table, X

NORM = "WeightMagnitude_norm "
POINTS = 24  # maximum number of points along the stream
ACCURACY, WEIGHTS = "accuracy", "weights"


def table(runs: list[Run]) -> Table:
    """Accuracy of ETA and of the source model, and the norm of weights by layer in % of the source's."""
    found = Table(unit="accuracy, %; norm of adapted weights, % of the source model's", axis="step")
    for run in (run for run in runs if run.adapts):
        norms = by_stage(run)
        at = [n for n, row in enumerate(run.rows) if any(k.startswith(NORM) for k in row)]
        at = [at[n] for n in np.unique(np.linspace(0, len(at) - 1, POINTS).astype(int))]
        steps = [run.rows[n]["step"] for n in at]
        for n, following, x in zip(at, [*at[1:], len(run.rows)], steps, strict=True):
            for curve, other in (("ETA", run), ("Source", run.source)):
                if other is not None:
                    accuracy = other.column("accuracy")[n:following]
                    found.add(ACCURACY, curve, x, run.place, 100 * float(accuracy.mean()))
            for stage, norm in norms.items():
                found.add(WEIGHTS, stage, x, run.place, 100 * norm[n] / norm[at[0]])
    return found


def by_stage(run: Run) -> dict[str, np.ndarray]:
    """The norm [n] of all adapted weights by stage; NaN if not measured."""
    stages: dict[str, list[np.ndarray]] = {}
    names = dict.fromkeys(k for row in run.rows for k in row if k.startswith(NORM))
    for name in names:
        parts = [p for p in name.removeprefix(NORM).split(".") if p not in ("net", "features")]
        stages.setdefault(parts[0], []).append(run.column(name))
    return {stage: np.linalg.norm(columns, axis=0) for stage, columns in stages.items()}


def collapse(t: Table) -> X:
    """The x after which the mean of ETA stays below the source model's."""
    above = [
        x for x in t.xs if (t.mean(ACCURACY, "ETA", x) or 0) >= (t.mean(ACCURACY, "Source", x) or 0)
    ]
    place = t.xs.index(above[-1]) + 1 if above else 0
    return t.xs[min(place, len(t.xs) - 1)]


def later(t: Table) -> list[Part]:
    """The growth of each layer's weights after the collapse minus that before it."""
    first, at, last = t.xs[0], collapse(t), t.xs[-1]
    parts = []
    for layer in t.curves(WEIGHTS):
        values = {x: t.values(WEIGHTS, layer, x) for x in (first, at, last)}
        before, after = (
            {run: value - values[a][run] for run, value in values[b].items() if run in values[a]}
            for a, b in ((first, at), (at, last))
        )
        parts.append(Part(layer, paired(after, before), 0))
    return parts
