"""Estimates for whole datasets: Tables 3.1, 3.2, B.1 to B.4, Figures B.2 and B.3 of the thesis."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ....run_folder import FLIPS
from ...results.flip_points import Point, fit_points, points_of
from ...results.run_statistics import Values
from ...results.runs import Run, grouped
from ..experiment import matches
from ..table import Table
from ..tables import Renamed, name_of

FIT_ON = ("holdout*",)  # settings to which f is fitted, and which are not estimated
# The columns of Table 3.1 and their names in runs; ATC uses the largest probability.
ESTIMATES = {"AC": "AC_T", "DoC": "DoC_T", "ATC": "ATC-MC_T", "COT": "COT_T"}
FORMS = {  # of f, by the columns of Table B.1: degree, and whether flips are weighted
    "Unweighted linear": (1, False),
    "Unweighted quadratic": (2, False),
    "Weighted linear": (1, True),
    "Weighted quadratic": (2, True),
    "Weighted cubic": (3, True),
}
AT = (0, 50, 100, 200, 400, 600, 800)  # flips of 1,000 at which f is shown
SIZES = (1000, 500, 200, 100)  # sizes of the held-out set
KINDS = {"stop": "steps", "held": "held images"}
UNIT = "mean absolute error, points"


class Column(NamedTuple):
    """A column of a table: points, f, and the estimate ("WF", or one of ESTIMATES)."""

    points: list[Point]
    f: FlipFunction | None
    estimate: str = "WF"


def first_f(held: list[Point], f: str = "") -> FlipFunction | None:
    """f by name or from a file; by default f fitted to the hold-out of RDumb's runs."""
    return FlipFunction.load(f) if f else fitted(of_variant(held))


def parted(runs: Iterable[Run], fit_on: Sequence[str] = FIT_ON) -> tuple[list[Point], list[Point]]:
    """The points for fitting f, and the other points."""
    held: list[Point] = []
    others: list[Point] = []
    for point in points_of(runs):
        (held if matches(point.run.setting, fit_on) else others).append(point)
    return held, others


def errors(points: list[Point], f: FlipFunction | None, estimate: str) -> dict[str, Values[str]]:
    """The absolute errors |estimate - accuracy| in points, by setting and stream."""
    found: dict[str, Values[str]] = {}
    for point in points:
        value = point.source.get(ESTIMATES.get(estimate, ""))
        if estimate == "WF":
            value = None if f is None else f(point.flips[f.weighted])
        if value is not None:
            cells = found.setdefault(point.run.setting, {})
            cells[point.run.place] = 100 * abs(value - point.accuracy)
    return found


def errors_of(several: Mapping[str, Column]) -> Table:
    """Mean absolute errors, with datasets as rows."""
    table = Table(unit=UNIT, summary="rows")
    found = {name: errors(*column) for name, column in several.items()}
    for setting in dict.fromkeys(setting for own in found.values() for setting in own):
        for name, own in found.items():
            table.extend("", setting, name, own.get(setting, {}))
    return table


def estimators(runs: list[Run], fit_on: Sequence[str] = FIT_ON, f: str = "") -> Table:
    """Table 3.1: all estimators."""
    held, rest = parted(runs, fit_on)
    own = of_variant(rest) or rest
    function = first_f(held, f)
    return errors_of({name: Column(own, function, name) for name in (*ESTIMATES, "WF")})


def one_f(
    runs: list[Run],
    x: str,
    renamed: Renamed = None,
    fit_on: Sequence[str] = FIT_ON,
    f: str = "",
) -> Table:
    """Tables 3.2 and B.3: the adapting runs by name, all with RDumb's f."""
    held, rest = parted(runs, fit_on)
    function = first_f(held, f)
    by_name = grouped(rest, lambda point: name_of(point.run, x, renamed))
    return errors_of({str(name): Column(own, function) for name, own in by_name.items()})


def forms(runs: list[Run], fit_on: Sequence[str] = FIT_ON) -> Table:
    """Table B.1: polynomials, each fitted to the hold-out."""
    held, rest = (of_variant(points) for points in parted(runs, fit_on))
    fits = {name: fit_points(held, *form) for name, form in FORMS.items()} if held else {}
    return errors_of({name: Column(rest, f) for name, f in fits.items()})


def columns(
    runs: list[Run],
    columns: Mapping[str, Mapping[str, Any]],
    fit_on: Sequence[str] = FIT_ON,
    f: str = "",
) -> Table:
    """Tables B.2 and B.4: one column per estimate, override, and number of held-out images.

    refit: fit f to the override's own hold-out instead of the first one's.
    """
    held, rest = parted(runs, fit_on)
    found = {}
    for name, own in columns.items():
        names = own.get("override", [""])
        points = [point for point in rest if point.run.override in names]
        if "held" in own:
            points = [point.recounted(held=own["held"]) for point in points]
        known = [point for point in held if point.run.override in names]
        function = fitted(known) if own.get("refit") else first_f(held, f)
        found[name] = Column(points, function, own.get("estimate", "WF"))
    return errors_of(found)


def refitted(runs: list[Run], fit_on: Sequence[str] = FIT_ON) -> Table:
    """Appendix B.9: errors and flips, with f fitted to each network's own hold-out."""
    found = Table(unit=f"{UNIT}; label flips of 1,000")
    held, rest = parted(runs, fit_on)
    for setting, own in by_setting(rest).items():
        weights = own[0].run.weights
        cells = errors(own, fitted([p for p in held if p.run.weights == weights]), "WF")
        found.extend("", setting, "error", cells.get(setting, {}))
        found.extend("", setting, "flips", {p.run.place: p.flips[False] for p in own})
    return found


def recounted(runs: list[Run], kind: str, fit_on: Sequence[str] = FIT_ON) -> Table:
    """Figures B.2 ("stop") and B.3 ("held"): mean error and f for other ways of counting flips."""
    held, rest = parted((run for run in runs if (run.folder / FLIPS).exists()), fit_on)
    found = Table(
        unit="mean absolute error, points; f, accuracy in %", axis=f"{KINDS[kind]}; flips of 1,000"
    )
    for number, choice in choices(kind, [*held, *rest]).items():
        f = fitted([point.recounted(**choice) for point in held])
        if f is None:
            continue
        again = errors([point.recounted(**choice) for point in rest], f, "WF")
        for setting, cells in again.items():
            found.add("error", "error", number, setting, float(np.mean(list(cells.values()))))
        for flips in AT:
            found.add("f", f"{number:,} {KINDS[kind]}", flips, "fit", 100 * f(flips))
    return found


def choices(kind: str, points: list[Point]) -> dict[int, dict[str, Any]]:
    """The stops and numbers of held-out images with which flips can be recounted."""
    if not points:
        return {}
    settings = points[0].settings
    if kind == "stop":
        return {n: {"stop": n} for n in [*settings["also"], settings["stop"]]}
    return {n: {"held": n} for n in SIZES if n <= settings["held"]}


def of_variant(points: list[Point], method: str = "RDumb", override: str = "") -> list[Point]:
    """The points of one method and override."""
    return [p for p in points if p.run.variant == (method, override)]


def fitted(points: list[Point]) -> FlipFunction | None:
    """f fitted to the points; None if there are too few."""
    known = {point.flips[True] for point in points}
    return fit_points(points, 2, True) if len(known) > 2 else None


def by_setting(points: list[Point]) -> dict[str, list[Point]]:
    return grouped(points, lambda point: point.run.setting)
