"""Accuracy and agreement lines of ensembles (Figures 1 to 3)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..table import Table
from .evidence import Ensemble, Seen, evidence


def table(
    folders: list[Path], ensembles: list[Any], drawn: Mapping[str, list[Any]] | None = None
) -> Table:
    """Both lines of each ensemble (panel) on each shift (curve), with one number per seed.

    drawn: the ensembles in the figure by shift, with the first seed.
    """
    found = evidence(folders, map(Ensemble.read, ensembles))
    table = Table(unit="slopes, biases and R² as they are, the rest in points")
    for ensemble, by_shift in found.items():
        for shift, by_seed in by_shift.items():
            for seed, seen in by_seed.items():
                for x, number in numbers(seen).items():
                    table.add(str(ensemble), shift, x, f"seed {seed}", round(number, 4))
    for shift, declared in (drawn or {}).items():
        for ensemble in map(Ensemble.read, declared):
            if seeds := found.get(ensemble, {}).get(shift, {}):
                seed = min(seeds)
                table.points[f"{ensemble}\n{shift}, seed {seed}"] = list(seeds[seed].points)
    return table


def numbers(seen: Seen) -> dict[str, float]:
    """The columns of a row."""
    result = seen.result
    found = {}
    for x, n in (("slope", 0), ("bias", 1), ("R²", 2)):
        for name, line in (
            ("accuracy", result.accuracy_line),
            ("agreement", result.agreement_line),
        ):
            found[f"{name} {x}"] = float("nan") if line is None else float(line[n])
    error = result.estimates.get("ALine-S", np.full(1, np.nan)) - seen.truth
    found["excess ID"], found["excess OOD"] = 100 * seen.inside, 100 * seen.outside
    found["ALine-S error"] = 100 * float(np.abs(error).mean())
    return found
