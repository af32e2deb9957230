"""CCC: two corruptions that give way to each other along paths of constant difficulty."""

import random
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from .. import HoldfastError, in_range
from .calibration import STEP, Calibration
from .sources.base import ImageSource
from .sources.shards import Shards
from .sources.tar import cell, run_name
from .stream import Corruptions, Segment, Stream

DIFFICULTIES = {"easy": 40.0, "medium": 20.0, "hard": 0.0}
HARD = ("gaussian_noise", "shot_noise", "impulse_noise", "contrast")
MEDIUM = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "contrast", "elastic_transform", "pixelate"),
)
EASY = (*MEDIUM, "jpeg_compression")


def corruptions_for(target: float) -> tuple[str, ...]:
    """Those that the original walks between at this accuracy in percent."""
    return EASY if target >= 40 else MEDIUM if target >= 20 else HARD


def find_path(matrix: np.ndarray, target: float) -> list[tuple[int, int]]:
    """Severity steps (i, j) from the first corruption alone to the second alone, at one accuracy.

    From (i, 0) each move lowers i or raises j until i = 0; the mean of `matrix` [n,n] (accuracy in
    percent) along the path is meant to be `target`. The search is CCC's: from the end backwards, a
    cell keeps the better of its two continuations, which need not be the best path of all
    (Press et al. 2023, appendix A.3).
    """
    size = len(matrix)
    tails: dict[tuple[int, int], tuple[float, list[tuple[int, int]]]] = {}

    def cost(tail: tuple[float, list]) -> float:
        return abs(tail[0] / len(tail[1]) - target)

    for i in range(size):
        for j in reversed(range(size)):
            here, value = [(i, j)], float(matrix[i][j])
            if i == 0:
                tails[i, j] = value, here
                continue
            total, cells = tails[i - 1, j]
            lower = value + total, here + cells
            total, cells = tails.get((i, j + 1), (inf, here))
            higher = value + total, here + cells
            tails[i, j] = lower if cost(lower) < cost(higher) else higher
    return min((tails[i, 0] for i in range(1, size)), key=cost)[1]


class CCC(Stream):
    """Continuously Changing Corruptions (Press et al. 2023, section 4).

    The stream walks from one corruption to the next; each cell of a walk lasts `speed` images. The
    severity at which a corruption leaves one walk and enters the next may differ, as in the original.

    Args:
        source: clean images, from which the stream is generated; or `Shards`, which hold it finished
            (then calibration, corruptions, table and quality are theirs).
        difficulty: "easy", "medium", "hard", or the accuracy in percent that a path should have on the
            calibration's source model.
        speed: images for each step of severity.
        seed: 43, 44 and 45 give the published sequences of corruptions.
        calibration: the embedded "glyphs" or "digits", or the path of a file made by
            `holdfast calibrate`.
        corruptions: to walk between; default: those of the original for this accuracy.
    """

    def __init__(
        self,
        source: ImageSource,
        difficulty: float | str = "medium",
        speed: int = 1000,
        images: int | None = 7_500_000,
        seed: int = 43,
        calibration: str | Path = "glyphs",
        corruptions: Sequence[str] | None = None,
        table: str = "imagenet",
        quality: int | None = 85,
        batch_size: int = 64,
        num_workers: int = 1,
        on_device: bool = False,
        start: int = 0,
    ) -> None:
        if isinstance(difficulty, str) and difficulty not in DIFFICULTIES:
            raise HoldfastError(
                f"difficulty '{difficulty}' is unknown: choose {', '.join(DIFFICULTIES)}, "
                "or an accuracy in percent."
            )
        self.target = DIFFICULTIES[difficulty] if isinstance(difficulty, str) else difficulty
        in_range(1, speed=speed)
        self.speed = speed
        self.finished = isinstance(source, Shards)
        if isinstance(source, Shards):
            source, quality = source.open(run_name(self.target, speed, seed), speed, images), None
            images = images or len(source)
        super().__init__(
            *(source, images, seed, table, quality, batch_size, num_workers, on_device, start)
        )
        if self.finished:
            return
        self.calibration = Calibration.load(calibration)
        self.corruptions = tuple(corruptions or corruptions_for(self.target))
        if len(set(self.corruptions)) < 2:
            raise HoldfastError(f"corruptions={list(self.corruptions)}: walks need two different.")
        self.calibration.check(self.corruptions)
        self._paths: dict[tuple[str, str], list[tuple[int, int]]] = {}

    @property
    def identity(self) -> dict[str, Any]:
        facts = super().identity | {"target": self.target, "speed": self.speed}
        if self.finished:
            return facts
        facts["corruptions"] = self.corruptions
        return facts | {"calibration": self.calibration.provenance}

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The corruptions at the beginning and end of each walk, for ever."""
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
            self._paths[first, second] = find_path(matrix, self.target)
        return self._paths[first, second]

    def cells(self) -> Iterator[Corruptions]:
        """Both corruptions of each cell in turn, those of severity 0 too."""
        for first, second in self.pairs():
            for i, j in self.path(first, second):
                yield (first, i * STEP), (second, j * STEP)

    def stretches(self) -> Iterator[tuple[Corruptions, int]]:
        for pair in self.cells():
            yield tuple((name, severity) for name, severity in pair if severity > 0), self.speed

    def segment_at(self, position: int) -> int:
        return position // self.speed

    # ---- finished images, which say themselves how they were made ----

    def segment(self, number: int) -> Segment:
        if not isinstance(self.source, Shards):
            return super().segment(number)
        start = number * self.speed
        return Segment(cell(self.source.sample(start).info), start, self.speed)

    def applied(self, number: int) -> Corruptions:
        return () if self.finished else super().applied(number)

    def drawn(self, index: Tensor, number: int) -> Tensor:
        return index if self.finished else super().drawn(index, number)
