"""f fitted to the flips of the hold-out, or of random subsets of the datasets (Figures 3.6 and 3.7)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ....drawing import panels, saved
from ...results.flip_points import Point
from ...results.palette import COLOURS
from ...results.runs import Run, grouped
from ..experiment import matches
from ..table import Table
from ..tables import Renamed, name_of
from .error_claims import FITTED, OTHERS
from .set_errors import ESTIMATES, UNIT, by_setting, errors, fitted, of_variant, parted

DRAWS = 50


def table(runs: list[Run], shown: Sequence[str] = ("*",), networks: Renamed = None) -> Table:
    """Figure 3.6: flips, accuracy and estimate of each stream, in the panels "fitted" and others.

    shown: patterns of the estimated settings. networks: the names of several networks by override, one
    panel each, all with the f of the first.
    """
    held, rest = parted(runs)
    f = fitted(of_variant(held))
    found = Table(unit="flips of 1,000; accuracy, %")
    if f is None:
        return found
    rest = [point for point in rest if matches(point.run.setting, shown)]
    named = lambda point: name_of(point.run, "override", networks) if networks else OTHERS  # noqa: E731
    for panel, points in {FITTED: of_variant(held), **grouped(rest, named)}.items():
        for point in points:
            curve, place = point.run.stream, point.run.place
            found.add(panel, curve, "flips", place, point.flips[True])
            found.add(panel, curve, "accuracy", place, 100 * point.accuracy)
            found.add(panel, curve, "estimate", place, 100 * f(point.flips[True]))
    terms = ", ".join(f"{c:.5g}" for c in f.coefficients)
    found.notes.append(f"f has the coefficients {terms}, highest degree first")
    return found


def picture(found: Table, cells: list[Any], path: Path) -> Path:
    """Draw the points and f (left) and the estimates against the true accuracies (right)."""
    figure, (left, right) = panels(2, size=(8, 3.6))
    numbers = {}
    others = [panel for panel in found.panels if panel != FITTED]
    greys = ["0.6"] if len(others) == 1 else COLOURS
    colours = {panel: greys[n % len(greys)] for n, panel in enumerate(others)}
    for part, colour in {**colours, FITTED: "#d62728"}.items():
        numbers[part] = np.array(
            [
                [found.mean(part, curve, x) for x in ("flips", "accuracy", "estimate")]
                for curve in found.curves(part)
            ],
            dtype=float,
        ).T
        flips, truth, estimate = numbers[part]
        left.plot(flips, truth, "o", ms=4, color=colour, label=part)
        right.plot(truth, estimate, "o", ms=4, color=colour, label=part)
    every = np.concatenate([numbers[FITTED], numbers[others[0]]], axis=1)
    flips, _, estimate = every[:, np.argsort(every[0])]
    left.plot(flips, estimate, color="black", lw=1.2, label="f")
    right.plot([0, 100], [0, 100], color="black", lw=0.8)
    left.set_xlabel("weighted flips of 1,000")
    left.set_ylabel("accuracy, %")
    right.set_xlabel("accuracy, %")
    right.set_ylabel("estimate, %")
    left.legend(frameon=False, fontsize=8)
    return saved(figure, path)


def subsets(runs: list[Run]) -> Table:
    """Figure 3.7: mean errors over the datasets outside the fit, by the number of datasets in the fit.

    The hold-out is not used. The errors of the other estimators are on the same datasets.
    """
    settings = by_setting(parted(runs)[1])
    sizes = [n for n in range(1, len(settings)) if fitted_to(settings, list(settings)[:n])]
    found = Table(unit=UNIT, axis="data sets that f is fitted to")
    random = np.random.default_rng(0)
    for size in sizes:
        for draw in range(DRAWS):
            chosen = {str(name) for name in random.choice(list(settings), size, replace=False)}
            f = fitted_to(settings, sorted(chosen))
            if f is None:
                continue
            rest = [p for name, own in settings.items() if name not in chosen for p in own]
            for name in (*ESTIMATES, "WF"):
                cells = errors(rest, f, name).values()
                if means := [float(np.mean(list(own.values()))) for own in cells]:
                    found.add("", name, size, f"draw {draw}", float(np.mean(means)))
    return found


def fitted_to(settings: dict[str, list[Point]], names: list[str]) -> FlipFunction | None:
    """f fitted to the points of these datasets."""
    return fitted([point for name in names for point in settings[name]])
