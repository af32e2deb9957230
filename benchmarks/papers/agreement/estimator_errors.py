"""Errors of estimators (the table of section 5), and their correlation with accuracy (7.1.3)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....callbacks.functional.aline import mean_absolute_error, mean_percentage_error
from ....callbacks.functional.projection import correlation
from ...results.model_agreement import TRUSTED, best_of_both
from ..table import Table
from .evidence import Ensemble, Seen, evidence

ESTIMATES = ("ALine-D", "ALine-S", "agreement")
ORACLES = tuple(f"{name} (oracle)" for name in ("AC", "DoC", "ATC-MC", "ATC-NE"))
SCORES = ("ProjNorm", "ALine-D", "ALine-S", "agreement")
ERRORS: dict[str, Callable[..., float]] = {
    "MAPE": mean_percentage_error,
    "MAE": mean_absolute_error,
}


def table(folders: list[Path], ensembles: list[Any]) -> Table:
    """Mean errors over the models for each ensemble, shift and seed.

    The panels are MAPE and MAE, each also with "no line" for shifts on which the agreement line's mean R²
    over the seeds is 0.95 or less, which the paper reports separately.
    """
    found = evidence(folders, map(Ensemble.read, ensembles))
    result = Table(unit="percentages of the accuracy (MAPE), points (MAE)")
    for name, mean_error in ERRORS.items():
        for apart in (False, True):
            for ensemble, by_shift in found.items():
                for shift, by_seed in by_shift.items():
                    r2 = np.mean([seen.result.r2 for seen in by_seed.values()])
                    if (r2 <= TRUSTED) != apart:
                        continue
                    panel = f"{name}, no line" if apart else name
                    for seed, seen in by_seed.items():
                        for x, own in estimates(seen).items():
                            value = round(100 * mean_error(own, seen.truth), 3)
                            result.add(panel, f"{ensemble}, {shift}", x, f"seed {seed}", value)
    return result


def estimates(seen: Seen) -> dict[str, np.ndarray]:
    """The estimates in the columns; confidences with or without temperature, whichever has less error."""
    every = {**seen.result.estimates, **best_of_both(seen.result)}
    return {name: every[name] for name in (*ESTIMATES, *ORACLES) if name in every}


def picture(table: Table, cells: list[Any], path: Path) -> Path:
    """Draw only the errors in points, as percentages have a different scale."""
    from ..picture import draw

    rows = [row for row in table.rows if row.panel in ("MAE", "MAE, no line")]
    return draw(replace(table, rows=rows, unit="mean absolute error, points"), path)


def correlations(folders: list[Path], ensemble: list[Any]) -> Table:
    """R² of the linear fit, and the rank correlation, of each score with accuracy out of distribution."""
    found = evidence(folders, [Ensemble.read(ensemble)])
    result = Table(unit="R² x 100; Spearman's correlation of ranks x 100")
    for by_shift in found.values():
        for name in SCORES:
            for shift, by_seed in by_shift.items():
                for seed, seen in by_seed.items():
                    score = {**seen.result.estimates, "ProjNorm": seen.models.projnorm}.get(name)
                    if score is not None:
                        r2, ranks = correlation(score, seen.truth)
                        for panel, number in (("R²", r2), ("Spearman", ranks)):
                            value = round(100 * number, 2)
                            result.add(panel, name, shift, f"seed {seed}", value)
    return result
