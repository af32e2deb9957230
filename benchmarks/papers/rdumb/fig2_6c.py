"""Figures 2.6c and A.2: how large the adapted weights of each layer become (thesis §2.6)."""

import numpy as np

from ...results.runs import Run
from ...results.statistics import Difference, paired
from ..artefact import Artefact
from ..table import Claim, Table

NORM = "WeightMagnitude_norm "
POINTS = 24  # along the stream, at most
OURS, SOURCE = "accuracy: ETA", "accuracy: Source"


def table(runs: list[Run]) -> Table:
    """Accuracy of ETA and of the source model, and the weights' norm by layer in % of the source's."""
    unit = "accuracy, %; norm of adapted weights, % of the source model's"
    found = Table([], {OURS: {}, SOURCE: {}}, unit, "step")
    for run in (run for run in runs if run.adapts):
        norms = by_stage(run)
        at = [n for n, row in enumerate(run.rows) if any(k.startswith(NORM) for k in row)]
        at = [at[n] for n in np.unique(np.linspace(0, len(at) - 1, POINTS).astype(int))]
        found.columns = found.columns or [str(run.rows[n]["step"]) for n in at]
        for n, following, column in zip(at, [*at[1:], len(run.rows)], found.columns, strict=False):
            for name, norm in norms.items():
                found.add(f"weights: {name}", column, run.place, 100 * norm[n] / norm[at[0]])
            for row, other in ((OURS, run), (SOURCE, run.source)):
                if other is not None:
                    accuracy = other.column("accuracy")[n:following]
                    found.add(row, column, run.place, 100 * float(accuracy.mean()))
    found.rows = {row: cells for row, cells in found.rows.items() if cells}
    return found


def by_stage(run: Run) -> dict[str, np.ndarray]:
    """The norm of all adapted weights of a stage, [n]; NaN where it was not measured."""
    stages: dict[str, list[np.ndarray]] = {}
    names = dict.fromkeys(k for row in run.rows for k in row if k.startswith(NORM))
    for name in names:
        parts = [p for p in name.removeprefix(NORM).split(".") if p not in ("net", "features")]
        stages.setdefault(parts[0], []).append(run.column(name))
    return {stage: np.linalg.norm(columns, axis=0) for stage, columns in stages.items()}


def collapse(t: Table) -> str:
    """From where on the mean of ETA stays below the source model's; the last column if nowhere."""
    above = [c for c in t.columns if (t.mean(OURS, c) or 0) >= (t.mean(SOURCE, c) or 0)]
    place = t.columns.index(above[-1]) + 1 if above else 0
    return t.columns[min(place, len(t.columns) - 1)]


def later(t: Table, row: str) -> Difference | None:
    """By how much more a row grows after the collapse than up to it."""
    cells, at = t.rows[row], collapse(t)
    before, after = (
        {run: b - cells[first][run] for run, b in cells[last].items() if run in cells[first]}
        for first, last in ((t.columns[0], at), (at, t.columns[-1]))
    )
    return t.decided(paired(after, before))


def layers(t: Table) -> list[str]:
    return [row for row in t.rows if row.startswith("weights: ")]


ARTEFACT = Artefact(
    name="rdumb/Fig2.6c",
    shows="norm of ETA's adapted weights by layer over CCC-Medium, beside accuracy (with figure A.2)",
    suites={
        "embedded": ("rdumb/weights-glyphs", "rdumb/ccc-glyphs"),
        "full": ("rdumb/weights", "rdumb/ccc"),
    },
    of_runs=table,
    claims=(
        Claim(
            "the adapted weights of every layer grow",
            lambda t: [t.step(row, t.columns[-1], t.columns[0]) for row in layers(t)],
        ),
        Claim(
            "they grow more after the collapse than before it",
            lambda t: [later(t, row) for row in layers(t)],
        ),
    ),
    only={"method": ("Source", "ETA-weights"), "setting": ("CCC-Medium",)},
    remark="A layer is a stage of the network here: the norm is over all adapted weights in it. ETA "
    "without a reset is the paper's RDumb without one.",
    why=(
        "The weights grow at an even pace from the first step on, and ETA's accuracy does not fall "
        "for good within these streams, so that there is no collapse after which they could grow "
        "faster."
    ),
)
