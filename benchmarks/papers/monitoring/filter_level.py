"""The error rate of the suitability filter, and the coverage of intervals from labels."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from ....callbacks.functional import labelled as lb
from ....callbacks.functional.confidence import max_confidence, probabilities
from ....callbacks.functional.suitability import Correctness, non_inferiority
from ...results.run_statistics import Difference
from ..table import Table

Array = np.ndarray
CLASSES, SOURCE, WINDOW, MARGIN, ALPHA = 5, 2000, 640, 0.05, 0.05
RUNS = {"embedded": (10, 30), "full": (10, 500)}  # number of groups, and windows per group
AT_MARGIN = 10  # factor on the number of windows at the margin
EASY, HARD = 4.0, 1.0  # distances of the label's logit, for accuracies of about 99 and 49 %
MIXED = 0.8  # share of easy images in the source data
LOSSES = (0.0, 0.025, 0.05, 0.075, 0.1)  # losses of accuracy
LABELS, BATCHES, BATCH = 20, 10, 64


def outputs(n: int, easy: float, random: np.random.Generator, sharpness: float = 1.0) -> Any:
    """Logits [n,5] of easy and hard images, and whether their predictions are correct [n]."""
    distance = np.where(random.random(n) < easy, EASY, HARD)
    labels, logits = random.integers(0, CLASSES, n), random.normal(size=(n, CLASSES))
    logits[np.arange(n), labels] += distance
    return sharpness * logits, logits.argmax(1) == labels


class Shift(NamedTuple):
    """The shift of a window from the source: its share of easy images, and its sampling."""

    easy: float = MIXED
    chosen: float = 0.0  # k: images are drawn with a probability proportional to exp(-k max p)
    sharpness: float = 1.0

    def window(self, n: int, random: np.random.Generator) -> Any:
        """Logits [n,5], and whether their predictions are correct [n]."""
        logits, correct = outputs(8 * n if self.chosen else n, self.easy, random)
        if self.chosen:
            confidence = max_confidence(probabilities(logits))
            accepted = random.random(8 * n) < np.exp(self.chosen * (1 / CLASSES - confidence))
            logits, correct = logits[accepted][:n], correct[accepted][:n]
        return self.sharpness * logits, correct


def shifts(loss: float) -> dict[str, Shift]:
    """Shifts that lose this much accuracy, within 0.1 points."""
    random = np.random.default_rng(0)
    easy, hard = (outputs(400_000, share, random)[1].mean() for share in (1.0, 0.0))
    logits, correct = outputs(400_000, MIXED, random)
    confidence = max_confidence(probabilities(logits))

    def lost(k: float) -> float:
        weights = np.exp(-k * confidence)
        return float(correct.mean() - (weights * correct).sum() / weights.sum() - loss)

    share = float(MIXED - loss / (easy - hard))
    return {
        "uncertain images": Shift(chosen=brentq(lost, 0, 9) if loss else 0.0),
        "harder images": Shift(share),
        "and over-confident": Shift(share, sharpness=1.3),
    }


def table(scale: str, cells: list[Any]) -> Table:
    """The percentage of SUITABLE windows, by loss of accuracy and its cause.

    "uncertain images" become more frequent with P(correct | outputs) unchanged. "harder images" become more
    frequent, which changes P(correct | outputs). "and over-confident": in addition, the logits are scaled
    up.
    """
    groups, windows = RUNS[scale]
    found = Table(unit="windows called SUITABLE, %", axis="accuracy lost, points")
    for loss in LOSSES:
        for name, shift in shifts(loss).items():
            total: list[bool] = []
            number = windows * (AT_MARGIN if loss == MARGIN else 1)  # for the level's claim
            for group in range(groups):
                random = np.random.default_rng([group, round(1000 * loss)])
                said = [suitable(shift, random) for _ in range(number)]
                total += said
                found.add("", name, 100 * loss, f"group {group}", 100 * np.mean(said))
            if loss == MARGIN:
                claim = f"level-{name.replace(' ', '-')}"
                found.intervals[claim] = [distance(total, ALPHA, -1)]
    return found


def suitable(shift: Shift, random: np.random.Generator) -> bool:
    """Whether a window with this shift is SUITABLE, with a separately fitted regression."""
    logits, correct = outputs(SOURCE, MIXED, random)
    half = SOURCE // 2
    model = Correctness.fit(logits[:half], correct[:half])
    own, theirs = (model.sample(z) for z in (shift.window(WINDOW, random)[0], logits[half:]))
    return non_inferiority(own, theirs, MARGIN, model.covariance) <= ALPHA


def coverage(scale: str, cells: list[Any]) -> Table:
    """The coverage and width of intervals from 20 labels per batch for the window's accuracy."""
    groups, windows = RUNS[scale]
    found = Table(unit="coverage, %; width, points")
    for x, share in {"clean": 0.98, "as the source": MIXED, "hard": 0.2}.items():
        for name in ("even, exact", "by uncertainty, weighted"):
            hits: list[bool] = []
            for group in range(groups):
                random = np.random.default_rng([group, round(100 * share)])
                several = [interval(name, share, random) for _ in range(windows)]
                inside = [low <= truth <= high for (_, low, high), truth in several]
                width = np.mean([high - low for (_, low, high), _ in several])
                hits += inside
                found.add("coverage", name, x, f"group {group}", 100 * np.mean(inside))
                found.add("width", name, x, f"group {group}", 100 * width)
            found.intervals.setdefault("covered", []).append(distance(hits, 0.95, 1))
    return found


def interval(name: str, share: float, random: np.random.Generator) -> tuple[lb.Interval, float]:
    """The interval of a window's accuracy, and the accuracy with which its images are drawn."""
    right, weights, truths = [], [], []
    for _ in range(BATCHES):
        logits, correct = outputs(BATCH, share, random)
        truths.append(correct.mean())
        if name.startswith("even"):
            chosen = random.permutation(BATCH)[:LABELS]
        else:
            chance = lb.chances(1 - max_confidence(probabilities(logits)))
            chosen = random.choice(BATCH, LABELS, p=chance)
            weights.append(lb.importance(chance)[chosen])
        right.append(correct[chosen])
    if name.startswith("even"):
        return lb.window_interval(np.concatenate(right)), float(np.mean(truths))
    wrong = 1.0 - np.concatenate(right)
    return lb.weighted_interval(wrong, np.concatenate(weights)), float(np.mean(truths))


def distance(hits: list[bool], limit: float, sign: int) -> Difference:
    """sign * (share - limit) in points, with the exact interval of the share."""
    found = lb.window_interval(np.array(hits))
    low, high = sorted(sign * 100 * (share - limit) for share in (found.low, found.high))
    return Difference(sign * 100 * (found.mean - limit), low, high, len(hits))
