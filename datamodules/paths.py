"""How CCC's walks between two corruptions are found: paths of constant accuracy through a table."""

from collections.abc import Iterable
from itertools import permutations, product
from math import inf
from typing import Literal

import numpy as np

from .calibration import Calibration

Search = Literal["published", "exact", "steady"]
FAR = 5.0  # points; a path whose mean is farther from the target is warned of
# Of the steady search, in points: unit and limit of sums of deviations, and how far a mean may be off.
_UNIT, _MOST, _SLACK = 0.02, 400.0, 0.1
_ROUGH = 0.5  # the unit where a path only has to come near


def find_path(
    matrix: np.ndarray, target: float, search: Search = "published"
) -> list[tuple[int, int]]:
    """Severity steps (i, j) from the first corruption alone to the second alone, at one accuracy.

    From (i, 0) each move lowers i or raises j until i = 0. The path is chosen so that the mean of
    `matrix` [n,n] (accuracy in percent) along it is near `target`.

    search: "published" is CCC's: from the end backwards, an entry keeps the better of its two
    continuations, which need not be the best path of all (Press et al. 2023, appendix B; thesis,
    appendix A.2); "steady" finds, of all paths whose mean is within .1 points of the target, the one
    whose entries deviate least, or, where there is none, the nearer of this one and the published path;
    "exact" always takes the nearer of the two, on which the embedded streams' results rest.
    """
    if search != "published":
        steady = _steady_path(matrix, target)
        if search == "steady" and _distance(matrix, steady, target) <= _SLACK + _UNIT / 2:
            return steady
        paths = find_path(matrix, target), steady
        return min(paths, key=lambda path: _distance(matrix, path, target))
    size = len(matrix)
    tails: dict[tuple[int, int], tuple[float, list[tuple[int, int]]]] = {}

    def cost(tail: tuple[float, list]) -> float:
        return abs(tail[0] / len(tail[1]) - target)

    for i in range(size):
        for j in reversed(range(size)):
            entry, value = [(i, j)], float(matrix[i][j])
            if i == 0:
                tails[i, j] = value, entry
                continue
            total, path = tails[i - 1, j]
            lower = value + total, entry + path
            total, path = tails.get((i, j + 1), (inf, entry))
            higher = value + total, entry + path
            tails[i, j] = lower if cost(lower) < cost(higher) else higher
    return min((tails[i, 0] for i in range(1, size)), key=cost)[1]


def mean_along(matrix: np.ndarray, path: list[tuple[int, int]]) -> float:
    """The mean accuracy along a path."""
    return float(np.mean([matrix[at] for at in path]))


def _distance(matrix: np.ndarray, path: list[tuple[int, int]], target: float) -> float:
    """How far the mean along a path is from the target."""
    return abs(mean_along(matrix, path) - target)


def _steady_path(matrix: np.ndarray, target: float, unit: float = _UNIT) -> list[tuple[int, int]]:
    """The path of smallest squared deviations from the target among those whose mean is near it.

    For each entry and each sum of deviations to the end, in units of `unit` points, the least sum of
    squares is kept; sums beyond 400 points are left out.
    """
    size, reach = len(matrix), round(_MOST / unit)
    steps = np.rint((matrix - target) / unit).astype(int)
    # least[i, j, reach + s]: the least sum of squares of a tail whose deviations add up to s.
    least = np.full((size, size + 1, 2 * reach + 1), inf)
    for i, j in product(range(size), reversed(range(size))):
        if i == 0:
            if abs(step := steps[0, j]) <= reach:
                least[0, j, reach + step] = step**2
        else:
            rest = np.minimum(least[i - 1, j], least[i, j + 1])
            least[i, j] = _shifted(rest, steps[i, j]) + steps[i, j] ** 2
    best = least[1:, 0].min(0)
    away = np.where(np.isfinite(best), abs(np.arange(len(best)) - reach), np.inf)
    at = int(np.where(away <= max(away.min(), _SLACK * size / unit), best, np.inf).argmin())
    i, j = int(least[1:, 0, at].argmin()) + 1, 0
    path = [(i, j)]
    while i > 0:
        at -= steps[i, j]
        i, j = (i - 1, j) if least[i - 1, j, at] <= least[i, j + 1, at] else (i, j + 1)
        path.append((i, j))
    return path


def _shifted(row: np.ndarray, by: int) -> np.ndarray:
    """A row [N] moved to the right; what comes in from outside is infinite."""
    result = np.full_like(row, inf)
    if abs(by) < len(row):
        result[max(by, 0) : len(row) + min(by, 0)] = row[max(-by, 0) : len(row) - max(by, 0)]
    return result


def corruptions_that_reach(
    target: float, corruptions: Iterable[str], calibration: Calibration
) -> list[str]:
    """Those of the corruptions between which each walk of the steady search comes near the target.

    One after another, the corruption with the most walks that do not is left out.
    """
    kept, far = list(corruptions), []
    for pair in permutations(kept, 2):
        matrix = calibration.matrix(*pair)
        if _distance(matrix, _steady_path(matrix, target, unit=_ROUGH), target) > FAR:
            far.append(pair)
    while far:
        kept.remove(max(kept, key=lambda name: sum(name in pair for pair in far)))
        far = [pair for pair in far if set(pair) <= set(kept)]
    return kept if len(kept) > 1 else []
