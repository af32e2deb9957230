"""CCC: pairs of corruptions that change along paths of constant difficulty."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, permutations, product
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from lightning.pytorch.utilities import rank_zero_warn

from .. import HoldfastError, in_range, one_of
from .calibration import STEP, Calibration
from .corruptions import check
from .sources import ImageSource
from .stream import Corruptions, Stream

Search = Literal["published", "exact", "steady"]
# Of the steady search, in points: unit and limit of sums of deviations, and how far a mean may be off.
_UNIT, _MOST, _SLACK = 0.02, 400.0, 0.1
_ROUGH = 0.5  # the unit where a path only has to come near
_FEWEST = 3  # walks of a stream whose mean difficulty is near the target
_FAR = 5.0  # points; a walk whose mean is farther from the target is warned of
_DIFFICULTIES = {"easy": 40.0, "medium": 20.0, "hard": 0.0}
HARD = ("gaussian_noise", "shot_noise", "impulse_noise", "contrast")
_NOISE = ("gaussian_noise", "shot_noise", "impulse_noise")
_BLUR = ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur")
MEDIUM = _NOISE + _BLUR + ("snow", "frost", "fog", "contrast", "elastic_transform", "pixelate")
EASY = (*MEDIUM, "jpeg_compression")


def target_of(difficulty: float | str) -> float:
    """The accuracy in percent that a difficulty means.

    >>> target_of("medium"), target_of(30)
    (20.0, 30.0)

    Raises HoldfastError if it is unknown.
    """
    if isinstance(difficulty, str) and difficulty not in _DIFFICULTIES:
        raise HoldfastError(
            f"Unknown difficulty '{difficulty}'. Choose {', '.join(_DIFFICULTIES)}, or an accuracy "
            "in percent."
        )
    target = _DIFFICULTIES[difficulty] if isinstance(difficulty, str) else difficulty
    in_range(0, 100, difficulty=target)
    return float(target)


def corruptions_for(target: float) -> tuple[str, ...]:
    """The corruptions of the original walks at this accuracy in percent."""
    return EASY if target >= 40 else MEDIUM if target >= 20 else HARD


def corruptions_that_reach(
    target: float, corruptions: Iterable[str], calibration: Calibration
) -> list[str]:
    """Those of the corruptions between which each walk of the steady search comes near the target.

    One after another, the corruption with the most walks that do not is left out.
    """
    kept, far = list(corruptions), []
    for pair in permutations(kept, 2):
        matrix = calibration.matrix(*pair)
        if _distance(matrix, _steady_path(matrix, target, unit=_ROUGH), target) > _FAR:
            far.append(pair)
    while far:
        kept.remove(max(kept, key=lambda name: sum(name in pair for pair in far)))
        far = [pair for pair in far if set(pair) <= set(kept)]
    return kept if len(kept) > 1 else []


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


def _mean(matrix: np.ndarray, path: list[tuple[int, int]]) -> float:
    """The mean accuracy along a path."""
    return float(np.mean([matrix[at] for at in path]))


def _distance(matrix: np.ndarray, path: list[tuple[int, int]], target: float) -> float:
    """How far the mean along a path is from the target."""
    return abs(_mean(matrix, path) - target)


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


class CCC(Stream):
    """Continuously Changing Corruptions (Press et al. 2023, section 2; thesis §2.2).

    The stream walks from one corruption to the next; each step of a walk lasts `speed` images. The
    severity at which a corruption leaves one walk and enters the next may differ, as in the original.

    Args:
        source: clean images; `CCCShards` reads the stream from files instead.
        difficulty: "easy", "medium", "hard", or the accuracy in percent that a path should have on the
            calibration's source model. The three are 40, 20 and 0, as in the official code; on the
            stream's random crops they come out as the papers' 34, 17 and 2. Default: the one for which the
            calibration was corrected, or else "medium".
        speed: images for each step of severity.
        seed: 43, 44 and 45 give the published sequences of corruptions.
        calibration: an embedded one, such as "glyphs" or "digits", or the path of a file made by
            `holdfast calibrate`. A calibration for another table is refused; one for another backbone or
            size gives a warning, as its difficulty is not this model's.
        corruptions: to walk between; default: those of a calibration that was corrected for this
            difficulty, or else the calibration's among those of the original code for this accuracy, which
            are 14, 13 and 4 (the papers' algorithm draws from all 15). A walk more than five points from
            the difficulty gives a warning, which names those to pass.
        search: how paths are found, see `find_path`; "published" gives CCC's own.
        **kwargs: see `Stream`.
    """

    def __init__(
        self,
        source: ImageSource,
        difficulty: float | str | None = None,
        speed: int = 1000,
        images: int | None = 7_500_000,
        seed: int = 43,
        calibration: str | Path = "glyphs",
        corruptions: Sequence[str] | None = None,
        table: str = "imagenet",
        quality: int | None = 85,
        search: Search = "published",
        **kwargs: Any,
    ) -> None:
        one_of("published", "exact", "steady", search=search)
        in_range(1, speed=speed)
        self.search, self.speed = search, speed
        self.calibration = Calibration.load(calibration)
        corrected = self.calibration.difficulty
        self.target = target_of(difficulty if difficulty is not None else corrected or "medium")
        super().__init__(source, images=images, seed=seed, table=table, quality=quality, **kwargs)
        self.calibration.check_table(table)
        measured = self.calibration.names
        if corruptions is None and self.target != corrected:
            corruptions = [name for name in corruptions_for(self.target) if name in measured]
        self.corruptions = tuple(measured if corruptions is None else corruptions)
        if len(set(self.corruptions)) < 2:
            raise HoldfastError(
                f"corruptions={list(self.corruptions)}: a walk needs two different corruptions."
            )
        self.calibration.check_pairs(self.corruptions)
        for name in self.corruptions:
            check(name, 5, table)
        self._paths: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def setup(self, stage: str) -> None:
        """Warn where the difficulty differs: another model or size, few walks, or walks far from it."""
        super().setup(stage)
        method = self.trainer and self.trainer.lightning_module
        weights = getattr(method, "source_hash", None)
        if differences := self.calibration.differences(self.source.size, weights):
            rank_zero_warn(
                f"The calibration was measured with {' and '.join(differences)}: the source model's "
                f"accuracy will not be {self.target:g} %. Measure this model with holdfast calibrate."
            )
        lengths = accumulate(len(self.path(*pair)) for pair in islice(self.pairs(), _FEWEST))
        whole = sum(length * self.speed <= (self.images or inf) for length in lengths)
        if whole >= _FEWEST:
            self.warn_of_difficulty()
        else:
            rank_zero_warn(
                f"images={self.images} at speed={self.speed} are {whole} whole walks from one corruption "
                f"to the next. The source model's accuracy is {self.target:g} % on average over many "
                "walks and may be far from it here. Raise images or lower speed."
            )

    def warn_of_difficulty(self) -> None:
        """Warn of walks whose difficulty is not the target, and say what to pass."""
        if (measured := self.calibration.difficulty) not in (None, self.target):
            rank_zero_warn(
                f"The calibration was corrected along walks of {measured:g} %, not of {self.target:g} %, "
                f"where it may be off by points. Pass difficulty={measured:g}, or make another: holdfast "
                f"calibrate --walks {self.target:g}."
            )
        if far := self._far_walks():
            (first, last), mean = max(far.items(), key=lambda walk: abs(walk[1] - self.target))
            reach = corruptions_that_reach(self.target, self.corruptions, self.calibration)
            passed = ["search='steady'"] if self.search == "published" else []
            if len(reach) < len(self.corruptions):
                passed.append(f"corruptions={reach}")
            rank_zero_warn(
                f"Along {len(far)} of this stream's walks the source model's accuracy is more than "
                f"{_FAR:g} points from {self.target:g} %, such as {mean:.0f} % from {first} to {last}. "
                + (f"Pass {' and '.join(passed)}." if reach else "Choose another difficulty.")
            )

    def _far_walks(self) -> dict[tuple[str, str], float]:
        """The mean accuracy along those walks of the stream that are far from the target."""
        walks = self._walks() if self.images else permutations(self.corruptions, 2)
        means = {pair: _mean(self.calibration.matrix(*pair), self.path(*pair)) for pair in walks}
        return {pair: mean for pair, mean in means.items() if abs(mean - self.target) > _FAR}

    def _walks(self) -> Iterator[tuple[str, str]]:
        """The pairs of those walks that the stream's images begin."""
        pairs, begun = self.pairs(), 0
        while begun < (self.images or 0):
            yield (pair := next(pairs))
            begun += len(self.path(*pair)) * self.speed

    @property
    def identity(self) -> dict[str, Any]:
        facts = super().identity | {"target": self.target, "speed": self.speed}
        facts["corruptions"] = self.corruptions
        if self.search != "published":
            facts["search"] = self.search
        return facts | {"calibration": self.calibration.provenance}

    def pairs(self) -> Iterator[tuple[str, str]]:
        """An endless sequence of the corruptions at the start and end of each walk."""
        draw = random.Random(self.seed)
        first, second = draw.choice(self.corruptions), draw.choice(self.corruptions)
        while True:
            while second == first:
                second = draw.choice(self.corruptions)
            yield first, second
            first, second = second, draw.choice(self.corruptions)

    def path(self, first: str, second: str) -> list[tuple[int, int]]:
        """The walk between two corruptions, in severity steps of a quarter."""
        if (first, second) not in self._paths:
            matrix = self.calibration.matrix(first, second)
            self._paths[first, second] = find_path(matrix, self.target, self.search)
        return self._paths[first, second]

    def severity_pairs(self) -> Iterator[Corruptions]:
        """The two corruptions of each step, walk after walk, including those of severity 0."""
        for first, second in self.pairs():
            for i, j in self.path(first, second):
                yield (first, i * STEP), (second, j * STEP)

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        for pair in self.severity_pairs():
            yield tuple((name, severity) for name, severity in pair if severity > 0), self.speed

    def segment_at(self, position: int) -> int:
        return position // self.speed
