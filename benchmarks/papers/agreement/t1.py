"""The table of estimators (section 5): agreement-on-the-line against confidences, MAPE and MAE."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ....callbacks.functional.agreement import mean_absolute_error, mean_percentage_error
from ...results.agreement import TRUSTED, best_of_both
from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Table
from .evidence import BASELINES, Ensemble, Evidence, Seen, evidence
from .setting import LINEAR, OFF, PROBES, REMARK, WHOLE
from .terms import (
    Statement,
    Term,
    atc,
    best_confidence,
    best_percentage,
    claims,
    error,
    measured,
    percentage_error,
)

HEADS = [PROBES[0], *(own[0] for own in WHOLE.values())]
ESTIMATES = ("ALine-D", "ALine-S", "agreement", *BASELINES)
ERRORS: dict[str, Callable[..., float]] = {
    "MAPE": mean_percentage_error,
    "MAE": mean_absolute_error,
}
HEAD = PROBES[0]
STATEMENTS = (
    Statement(
        "C5: where the line holds ALine-S errs less than the best of the confidences",
        [[Term(1, best_confidence, HEAD, LINEAR), Term(-1, error, HEAD, LINEAR)]],
    ),
    Statement(
        "C5: the same in percent of the accuracy (MAPE)",
        [[Term(1, best_percentage, HEAD, LINEAR), Term(-1, percentage_error, HEAD, LINEAR)]],
    ),
    Statement(
        "C5: where it does not (contrast), ATC errs less than ALine-S",
        [[Term(1, error, HEAD, OFF), Term(-1, atc, HEAD, OFF)]],
    ),
)


def table(folders: list[Path]) -> Table:
    """Mean errors over the models with random heads, a row for each shift, a number for each seed."""
    found = evidence(folders, HEADS)
    result = Table(list(ESTIMATES), {}, "percentages of the accuracy (MAPE), points (MAE)")
    apart = [shift for shift in shifts(found) if mean_r2(found, *shift) <= TRUSTED]
    for name, mean_error in ERRORS.items():
        for ensemble, shift in sorted(shifts(found), key=apart.__contains__):
            for seed, seen in found[ensemble][shift].items():
                for column, estimate in estimates(seen).items():
                    own = 100 * mean_error(estimate, seen.result.truth)
                    result.add(
                        f"{name}: {ensemble}, {shift}", column, f"seed {seed}", round(own, 3)
                    )
    if apart:
        listed = "; ".join(f"{ensemble}, {shift}" for ensemble, shift in apart)
        result.notes.append(
            f"Below the others, since R² of the agreement line, mean over the seeds, is {TRUSTED} or less "
            f"there (the paper sets such shifts apart): {listed}."
        )
    result.intervals = measured(STATEMENTS, found)
    return result


def shifts(found: Evidence) -> Iterator[tuple[Ensemble, str]]:
    """Each ensemble with each of its shifts."""
    return ((ensemble, shift) for ensemble, own in found.items() for shift in own)


def mean_r2(found: Evidence, ensemble: Ensemble, shift: str) -> float:
    """R^2 of the agreement line, mean over the seeds."""
    return float(np.mean([seen.own.agreement[0, 2] for seen in found[ensemble][shift].values()]))


def estimates(seen: Seen) -> dict[str, np.ndarray]:
    """Those of the columns, the confidences with or without temperature, whichever errs less."""
    every = {**seen.result.estimates, **best_of_both(seen.result)}
    return {name: every[name] for name in ESTIMATES if name in every}


def picture(table: Table, cells: list[Cell], path: Path) -> Path:
    """The errors in points alone: percentages have another scale."""
    from ..picture import draw

    rows = {row: own for row, own in table.rows.items() if row.startswith("MAE")}
    return draw(replace(table, rows=rows, unit="mean absolute error, points"), path)


ARTEFACT = Artefact(
    name="agreement/T1",
    shows="agreement-on-the-line against confidences, models with random heads (C5)",
    suites={"embedded": ("glyphs", "digits")},
    of_ensembles=table,
    claims=claims(STATEMENTS),
    picture=picture,
    remark=f"{REMARK} Agreement is the naive one; an oracle has chosen for each confidence whether it is "
    "calibrated, as in the paper, which helps the confidences.",
)
