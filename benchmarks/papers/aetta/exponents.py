"""AETTA's error by number of passes, exponent and maximum entropy, computed from the same log.

Reproduces Figure 5, and explains why AETTA's estimates are too low with many classes: a batch cannot
attain the maximum entropy.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...results.batch_means import Pairs, pairs_of
from ...results.runs import Run, grouped
from ..primitives import Part, below
from ..table import Table
from ..tables import points, with_average

PASSES, ALPHAS = (5, 10, 15), (0, 1, 2, 3, 4, 5)
OF_BATCH = "AETTA, E_max of the batch"
CHOICES: dict[str, dict[str, Any]] = {
    "AETTA": {},
    OF_BATCH: {"of_batch": True},
    "disagreement alone": {"alpha": 0},
}


def table(runs: list[Run]) -> Table:
    """Mean absolute errors over corruptions by method: as logged, with other N, and with other alpha."""
    found = Table(unit="mean absolute error, points")
    methods = grouped([r for r in runs if r.adapts], lambda run: run.label)
    rows = {name: c for same in methods.values() for name, c in choices(same[0]).items()}
    for row, choice in rows.items():
        cells = {method: errors_of(same, **choice) for method, same in methods.items()}
        with_average(found, "", row, cells)
    return found


def of_batch(runs: list[Run]) -> Table:
    """Errors and biases by method with the maximum entropy of a batch, then other estimators' errors."""
    found = Table(unit="points")
    methods = grouped([run for run in runs if run.adapts], lambda run: run.label)
    for name, choice in CHOICES.items():
        for panel, signed in (("error", False), ("too high by", True)):
            cells = {m: errors_of(same, signed=signed, **choice) for m, same in methods.items()}
            with_average(found, panel, name, cells)
    names = dict.fromkeys(n for same in methods.values() for n in same[0].estimators)
    for name in (name for name in names if name != "AETTA"):
        with_average(
            found, "error", name, {m: points(same, f"{name}_error") for m, same in methods.items()}
        )
    return found


def others_above(table: Table) -> list[Part]:
    """Claim: with the maximum entropy of a batch, AETTA has a smaller error than every other estimator."""
    others: Iterable[str] = [c for c in table.curves("error") if c not in CHOICES]
    return below(table, OF_BATCH, list(others), panel="error", x="Avg")


def choices(run: Run) -> dict[str, dict[str, Any]]:
    """The rows that a run's log can provide, with their settings."""
    arguments = run.provenance.get("estimators", {}).get("AETTA", {})
    own, also = arguments.get("passes", 10), arguments.get("also") or ()
    passes = {f"N = {n}": {"passes": n} for n in PASSES if n in (own, *also)}
    return passes | {f"alpha = {alpha}": {"alpha": alpha} for alpha in ALPHAS}


def errors_of(runs: list[Run], **choice: Any) -> dict[str, float]:
    """`mean_error` in points, for each seed of a method's runs."""
    found = {}
    for seed, same in grouped(runs, lambda run: run.seed).items():
        error = mean_error(same, **choice)
        if error is not None:
            found[f"seed {seed}"] = 100 * error
    return found


def mean_error(runs: list[Run], signed: bool = False, **choice: Any) -> float | None:
    """Mean |estimate - accuracy| over corruptions of the runs of one seed; None without the columns.

    signed: use estimate - accuracy instead. choice: arguments of `recomputed`.
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
    """AETTA's estimates [T] recomputed from its columns; NaN for batches without them.

    of_batch: use the maximum entropy ln B of a batch of B images if it is below ln C.
    """
    import torch  # deferred: not needed for listing the experiments

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
