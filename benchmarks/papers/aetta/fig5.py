"""Figure 5: AETTA's error by the number of passes and by the exponent, all from one log."""

from typing import Any

import numpy as np

from ...results.corruptions import Pairs, pairs_of
from ...results.runs import Run, grouped
from ...results.statistics import Difference, average
from ..artefact import Artefact
from ..table import Claim, Table
from .t2 import ARTEFACT as TABLE_2

PASSES, ALPHAS = (5, 10, 15), (0, 1, 2, 3, 4, 5)


def table(runs: list[Run]) -> Table:
    """Mean absolute errors over corruptions, by method: as logged, with other N and with other alpha."""
    found = Table([], {}, "mean absolute error, points")
    for method, same in grouped([r for r in runs if r.adapts], lambda run: run.label).items():
        for row, choice in choices(same[0]).items():
            add_errors(found, row, method, same, **choice)
    found.columns = list(dict.fromkeys(column for cells in found.rows.values() for column in cells))
    for cells in found.rows.values():
        cells["Avg"] = average([cells.get(column, {}) for column in found.columns])
    found.columns.append("Avg")
    return found


def choices(run: Run) -> dict[str, dict[str, Any]]:
    """The rows that a run's log has columns for, and what they recompute with."""
    arguments = run.provenance.get("estimators", {}).get("AETTA", {})
    own, also = arguments.get("passes", 10), arguments.get("also") or ()
    passes = {f"N = {n}": {"passes": n} for n in PASSES if n in (own, *also)}
    return passes | {f"alpha = {alpha}": {"alpha": alpha} for alpha in ALPHAS}


def add_errors(found: Table, row: str, method: str, runs: list[Run], **choice: Any) -> None:
    """A cell: `mean_error` in points for each seed of a method's runs."""
    for seed, same in grouped(runs, lambda run: run.seed).items():
        error = mean_error(same, **choice)
        if error is not None:
            found.add(row, method, f"seed {seed}", 100 * error)


def mean_error(runs: list[Run], signed: bool = False, **choice: Any) -> float | None:
    """|estimate - accuracy| of runs of one seed, the mean over corruptions; None without the columns.

    signed: the mean of estimate - accuracy. choice: of `recomputed`.
    """
    errors: dict[Pairs, list[float]] = {}
    for run in runs:
        for row, estimate in zip(run.rows, recomputed(run, **choice), strict=True):
            if not np.isnan(estimate):
                error = estimate - row["accuracy"]
                errors.setdefault(pairs_of(row), []).append(error if signed else abs(error))
    return float(np.mean([np.mean(own) for own in errors.values()])) if errors else None


def recomputed(
    run: Run, passes: int | None = None, alpha: float = 3, of_batch: bool = False
) -> np.ndarray:
    """AETTA's estimates [T] from its columns; NaN where a batch has none.

    of_batch: as if the largest entropy were ln B of a batch of B images, where that is below ln C.
    """
    import torch  # here: listing the artefacts needs none of it

    from ....callbacks.functional.scores import aetta_estimates

    own = run.provenance.get("estimators", {}).get("AETTA", {}).get("passes", 10)
    ending = "" if passes in (None, own) else f"_{passes}"
    disagreement, balance, classes = (
        run.column(f"AETTA_{name}")
        for name in (f"disagreement{ending}", f"balance{ending}", "classes")
    )
    known = ~np.isnan(disagreement)
    estimates = np.full(len(disagreement), np.nan)
    if known.any():
        if of_batch:
            size = run.rows[0]["images"]
            balance = np.minimum(1, balance * np.log(classes) / np.log(np.minimum(size, classes)))
        first, second = (torch.tensor(column[known]) for column in (disagreement, balance))
        estimates[known] = aetta_estimates(first, second, int(classes[known][0]), alpha).numpy()
    return estimates


def worse(t: Table, row: str, other: str, by: float) -> Difference | None:
    """By how much less than that many points a row's error is above another's, over the methods."""
    return t.more(other, row, "Avg", by=-by)


ARTEFACT = Artefact(
    name="aetta/Fig5",
    shows="AETTA's error with 5, 10 and 15 passes, and with exponents from 0 to 5",
    suites=TABLE_2.suites,
    of_runs=table,
    claims=(
        Claim(
            "5, 10 or 15 passes make less than a point of difference",
            lambda t: [
                worse(t, *pair, by=1)
                for n in (5, 15)
                for pair in ((f"N = {n}", "N = 10"), ("N = 10", f"N = {n}"))
            ],
        ),
        Claim(
            "the weight helps: alpha = 3 has less error than alpha = 0",
            lambda t: [t.gain("alpha = 0", "alpha = 3", "Avg")],
        ),
        Claim(
            "the error hardly depends on alpha: from 1 to 5 within three points of that at 3",
            lambda t: [
                worse(t, *pair, by=3)
                for n in (1, 2, 4, 5)
                for pair in ((f"alpha = {n}", "alpha = 3"), ("alpha = 3", f"alpha = {n}"))
            ],
        ),
    ),
    only=TABLE_2.only,
    remark="No run is made twice: disagreement and balance are logged at 5, 10 and 15 passes, and the "
    "estimates are recomputed from them. The paper prints a figure without numbers.",
    why=(
        "A batch of 64 images reaches at most 0.67 of the entropy of 500 classes, so that the weight "
        "is large even for a perfect model, and the more so the larger alpha is (aetta/Why)."
    ),
)
