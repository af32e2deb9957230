"""Figure 3.7: errors where f is fitted to random subsets of the data sets."""

import numpy as np

from ....callbacks.functional.flips import FlipFunction
from ...results.flip_points import Point
from ...results.runs import Run
from ...results.statistics import Difference, Values, paired
from ..artefact import Artefact
from ..table import Claim, Table
from .families import ESTIMATES, METHODS, SUITES, by_setting, errors, fitted, parted

DRAWS = 50


def table(runs: list[Run]) -> Table:
    """Mean errors over the data sets that were not drawn, by how many f is fitted to, for each draw.

    The hold-out takes no part. The other estimators have theirs on the same data sets.
    """
    settings = by_setting(parted(runs)[1])
    sizes = [n for n in range(1, len(settings)) if fitted_to(settings, list(settings)[:n])]
    found = Table([str(n) for n in sizes], {}, "mean absolute error, points")
    found.axis = "data sets that f is fitted to"
    random = np.random.default_rng(0)
    for size in sizes:
        for draw in range(DRAWS):
            chosen = {str(name) for name in random.choice(list(settings), size, replace=False)}
            f = fitted_to(settings, sorted(chosen))
            if f is None:
                continue
            rest = [p for name, own in settings.items() if name not in chosen for p in own]
            cells = errors(rest, f).values()
            for name in (*ESTIMATES, "WF"):
                means = [float(np.mean(list(own[name].values()))) for own in cells if name in own]
                if means:
                    found.add(name, str(size), f"draw {draw}", float(np.mean(means)))
    return found


def fitted_to(settings: dict[str, list[Point]], names: list[str]) -> FlipFunction | None:
    """f through the points of these data sets."""
    return fitted([point for name in names for point in settings[name]])


def share(t: Table, other: str) -> Difference | None:
    """At how many more sizes weighted flips are ahead of another estimator than behind it, of all."""
    if "WF" not in t.rows or other not in t.rows:
        return None
    ahead: Values[str] = {
        size: float(np.sign((t.mean(other, size) or 0) - (t.mean("WF", size) or 0)))
        for size in t.columns
    }
    return paired(ahead, dict.fromkeys(ahead, 0.0))


ARTEFACT = Artefact(
    name="flips/Fig3.7",
    shows="errors of weighted flips with f fitted to random subsets of the data sets, 50 draws a size",
    suites=SUITES,
    of_runs=table,
    claims=(
        Claim(
            "weighted flips are ahead of COT at more sizes than not",
            lambda t: [share(t, "COT")],
        ),
    ),
    only={"method": METHODS},
    remark="Nothing runs for it: the points of Table 3.1 are drawn from. The sizes' draws overlap, so "
    "that their spread says little of other data sets.",
)
