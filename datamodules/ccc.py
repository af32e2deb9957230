"""CCC: pairs of corruptions that change along paths of constant difficulty."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, permutations
from math import inf
from pathlib import Path
from typing import Any, get_args

from lightning.pytorch.utilities import rank_zero_warn

from .. import HoldfastError, in_range, one_of
from .calibration import STEP, Calibration
from .corruptions import check
from .paths import FAR, Search, corruptions_that_reach, mean_along
from .paths import find_path as find_path
from .sources import ImageSource
from .stream import Corruptions, Stream

_FEWEST = 3  # walks of a stream whose mean difficulty is near the target
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


def corruptions_for(target: float, calibration: Calibration) -> tuple[str, ...]:
    """The corruptions between which a stream walks at this accuracy in percent.

    All of a calibration that was corrected for it; of another those of the original walks.
    """
    if calibration.difficulty == target:
        return calibration.names
    original = EASY if target >= 40 else MEDIUM if target >= 20 else HARD
    return tuple(name for name in original if name in calibration.names)


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
        one_of(*get_args(Search), search=search)
        in_range(1, speed=speed)
        self.search, self.speed = search, speed
        self.calibration = Calibration.load(calibration)
        if difficulty is None:
            difficulty = self.calibration.difficulty or "medium"
        self.target = target_of(difficulty)
        super().__init__(source, images=images, seed=seed, table=table, quality=quality, **kwargs)
        self.calibration.check_table(table)
        self.corruptions = tuple(corruptions or corruptions_for(self.target, self.calibration))
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
        """Warn of walks whose difficulty is not the target, and say what to pass.

        The published walks of the published calibration are the benchmark, however far they are.
        """
        if self.calibration.official and self.search == "published":
            return
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
                f"{FAR:g} points from {self.target:g} %, such as {mean:.0f} % from {first} to {last}. "
                + (f"Pass {' and '.join(passed)}." if reach else "Choose another difficulty.")
            )

    def _far_walks(self) -> dict[tuple[str, str], float]:
        """The mean accuracy along those walks of the stream that are far from the target."""
        far = {}
        for pair in self._walks():
            mean = mean_along(self.calibration.matrix(*pair), self.path(*pair))
            if abs(mean - self.target) > FAR:
                far[pair] = mean
        return far

    def _walks(self) -> Iterable[tuple[str, str]]:
        """The different pairs of those walks that the stream begins; all if it is endless."""
        if self.images is None:
            return permutations(self.corruptions, 2)
        begun, walks = 0, dict[tuple[str, str], None]()
        for pair in self.pairs():
            if begun >= self.images:
                break
            walks[pair] = None
            begun += len(self.path(*pair)) * self.speed
        return walks

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
