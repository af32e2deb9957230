"""Figures B.2 and B.3: errors and f by the step that the flips are counted at, and by the held images."""

from functools import partial
from typing import Any

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ....run_folder import FLIPS
from ...results.flip_points import Point
from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table
from .families import METHODS, SUITES, errors, fitted, parted

AT = (0, 50, 100, 200, 400, 600, 800)  # flips of 1,000 that f is told at
SIZES = (1000, 500, 200, 100)  # of the set of held images


def table_of(kind: str, runs: list[Run]) -> Table:
    """For each stop, or size of the held set: the mean error, and the f that is fitted to it."""
    held, rest = parted(run for run in runs if (run.folder / FLIPS).exists())
    found = Table(["error", *(f"f({flips})" for flips in AT)], {}, "points; accuracy, %")
    for name, choice in choices(kind, [*held, *rest]).items():
        f = fitted([p.recounted(**choice) for p in held])
        if f is not None:
            add(found, name, [p.recounted(**choice) for p in rest], f)
    return found


def choices(kind: str, points: list[Point]) -> dict[str, dict[str, Any]]:
    """What the runs can be recounted with."""
    if not points:
        return {}
    settings = points[0].settings
    if kind == "stop":
        return {f"{n} steps": {"stop": n} for n in [*settings["also"], settings["stop"]]}
    return {f"{n} held": {"held": n} for n in SIZES if n <= settings["held"]}


def add(table: Table, row: str, rest: list[Point], f: FlipFunction) -> None:
    """A row: errors by data set, and values of f."""
    for setting, cells in errors(rest, f).items():
        table.add(row, "error", setting, float(np.mean(list(cells["WF"].values()))))
    for flips in AT:
        table.add(row, f"f({flips})", "mean", 100 * f(flips))


def earlier(t: Table) -> list[Any]:
    """The error at the stop in the middle against that at the last one."""
    rows = list(t.rows)
    return [t.gain(rows[-1], rows[len(rows) // 2], "error")] if len(rows) > 1 else [None]


ARTEFACT = Artefact(
    name="flips/FigB.2",
    shows="errors of weighted flips, and f, by the step at which the flips are counted",
    suites=SUITES,
    of_runs=partial(table_of, "stop"),
    claims=(Claim("an earlier stop, about half way, has less error", earlier),),
    only={"method": METHODS},
    remark="The thesis has 26.9 % less error at 500 steps than at 1,000.",
)
