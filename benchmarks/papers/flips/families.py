"""Whole data sets and their estimates: what Table 3.1 and the figures around it are made of."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ...results.flip_points import Point, fit_points, points_of
from ...results.runs import Run, grouped
from ...results.statistics import Difference, Values, paired
from ..table import Table

SUITES = {"embedded": ("flips-glyphs",), "full": ("flips-imagenet",)}
METHODS = ("Source", "RDumb")


def and_more(name: str) -> dict[str, tuple[str, ...]]:
    """The suites with the one that adds to their runs: "limited", "methods" or "architectures"."""
    return {scale: (suite, f"{suite}-{name}") for scale, (suite,) in SUITES.items()}


# The columns of Table 3.1 and what a run calls them: ATC by the largest probability.
ESTIMATES = {"AC": "AC_T", "DoC": "DoC_T", "ATC": "ATC-MC_T", "COT": "COT_T"}


def parted(runs: Iterable[Run]) -> tuple[list[Point], list[Point]]:
    """The points that f is fitted to, and the others."""
    held: list[Point] = []
    others: list[Point] = []
    for point in points_of(runs):
        (held if point.run.stream.startswith("holdout") else others).append(point)
    return held, others


def errors(points: list[Point], f: FlipFunction) -> dict[str, dict[str, Values[str]]]:
    """|estimate - accuracy| in points, by setting, estimator and stream."""
    found: dict[str, dict[str, Values[str]]] = {}
    for point in points:
        cells = found.setdefault(point.run.setting, {})
        values = {name: point.source.get(key) for name, key in ESTIMATES.items()}
        values["WF"] = f(point.flips[f.weighted])
        for name, value in values.items():
            if value is not None:
                error = 100 * abs(value - point.accuracy)
                cells.setdefault(name, {})[point.run.place] = error
    return found


class Column(NamedTuple):
    """Some points, the f that is asked, and the estimate that is shown: "WF", or one of ESTIMATES."""

    points: list[Point]
    f: FlipFunction | None
    estimate: str = "WF"


def errors_of(columns: Mapping[str, Column]) -> Table:
    """Mean absolute errors: data sets down, columns across."""
    rows: dict[str, dict[str, Values[str]]] = {}
    for name, column in columns.items():
        found = errors(column.points, column.f) if column.f is not None else {}
        for setting, cells in found.items():
            if column.estimate in cells:
                rows.setdefault(setting, {})[name] = cells[column.estimate]
    return with_means(rows, list(columns))


def with_one_f(runs: Iterable[Run], name: Callable[[Run], str]) -> Table:
    """`errors_of` the adapting runs by what the function calls them, with the f of RDumb's own."""
    held, rest = parted(runs)
    f = fitted(of_variant(held))
    named = grouped(rest, lambda point: name(point.run))
    return errors_of({column: Column(own, f) for column, own in named.items()})


def means(table: Table, column: str) -> Values[str]:
    """The mean of a column in each data set, without the lines below them."""
    found = {row: table.mean(row, column) for row in table.rows}
    return {row: value for row, value in found.items() if value is not None and row not in BELOW}


BELOW = ("Average", "Worst case", "Average (worst excluded)")


def with_means(rows: dict[str, dict[str, Values[str]]], columns: list[str]) -> Table:
    """A table of data sets with its mean, its worst, and the mean without the worst."""
    table = Table(columns, rows, "mean absolute error, points")
    for column in columns:
        values = sorted(means(table, column).values())
        if len(values) > 1:
            below = (float(np.mean(values)), values[-1], float(np.mean(values[:-1])))
            for name, value in zip(BELOW, below, strict=True):
                table.add(name, column, "mean", value)
    return table


def less(table: Table, column: str, other: str) -> Difference | None:
    """By how much a column's errors are below another's, over the data sets."""
    return paired(means(table, other), means(table, column))


def below(table: Table, column: str, limit: float) -> Difference | None:
    """By how much a column's errors are below a limit, over the data sets."""
    found = means(table, column)
    return paired(dict.fromkeys(found, limit), found)


def of_variant(points: list[Point], method: str = "RDumb", override: str = "") -> list[Point]:
    """Those of one method and override."""
    return [p for p in points if p.run.variant == (method, override)]


def fitted(points: list[Point]) -> FlipFunction | None:
    """f through the points; None if there are too few."""
    known = {point.flips[True] for point in points}
    return fit_points(points, 2, True) if len(known) > 2 else None


def by_setting(points: list[Point]) -> dict[str, list[Point]]:
    return grouped(points, lambda point: point.run.setting)
