"""Simulated streams: a classifier whose difficulty, confidence and classes change in a known way."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....callbacks.functional.confidence import max_confidence, probabilities

Array = np.ndarray
CLASSES, BATCH, BATCHES, CHANGE = 5, 32, 200, 100
IMAGES = BATCH * BATCHES
CLEAN, HARD, HARDEST = 2.5, 1.5, 1.0  # distance of the label's logit: error of 10, 33 and 49 %
BLOCK = 640  # successive images of one class if labels are correlated


class Stream(NamedTuple):
    """How logits sharpness * (distance * label + noise) change along the images [IMAGES]."""

    distance: Array
    sharpness: Array
    collapsed: Array  # probability that the prediction is class 0 regardless of the image
    changes: bool = False  # whether the risk rises above the source's
    labels: str = "even"
    from_start: bool = False  # whether the reference is the unlabelled start of the stream


class Answers(NamedTuple):
    """The largest probability, predicted class, and correctness for images [n]."""

    confidence: Array
    classes: Array
    correct: Array


def ramp(first: float, last: float, start: int = 0, end: int = BATCHES) -> Array:
    """A number per image: `first` up to batch `start`, then linear to `last` at batch `end`."""
    return np.interp(np.arange(IMAGES) / BATCH, [start, max(end, start + 1e-9)], [first, last])


def stream(
    distance: Any = CLEAN, sharpness: Any = 1.0, collapsed: Any = 0.0, **rest: Any
) -> Stream:
    """A stream with the given changes to the source; each part is a number or an array [IMAGES]."""
    even = np.ones(IMAGES)
    return Stream(distance * even, sharpness * even, collapsed * even, **rest)


SHARPER = ramp(1, 3)
STREAMS: dict[str, Callable[[], Stream]] = {
    "clean": stream,
    "constant, harder": lambda: stream(HARD, from_start=True),
    "adapting, better": lambda: stream(ramp(CLEAN, 3.5), ramp(1, 2)),
    "sudden drop": lambda: stream(ramp(CLEAN, HARD, CHANGE, CHANGE), changes=True),
    "slow drift": lambda: stream(ramp(CLEAN, HARDEST, 0, BATCHES), changes=True),
    "sudden drop, adapting": lambda: stream(
        ramp(CLEAN, HARD, CHANGE, CHANGE), SHARPER, changes=True
    ),
    "slow drift, adapting": lambda: stream(ramp(CLEAN, HARDEST, 0, BATCHES), SHARPER, changes=True),
    "collapse": lambda: stream(
        CLEAN, SHARPER, collapsed=ramp(0, 1, CHANGE, CHANGE + 50), changes=True
    ),
    "correlated labels": lambda: stream(labels="correlated"),
    "label shift": lambda: stream(labels="shifted"),
    "less sure": lambda: stream(CLEAN, ramp(1, 0.5)),
}
# The distance of each class if classes differ; their mean error is about that of CLEAN.
UNLIKE = np.array([3.4, 3.0, 2.6, 2.2, 1.8])


def answers(own: Stream, random: np.random.Generator, even: bool = False) -> Answers:
    """Sample answers for the images of a stream; `even`: with balanced labels, as in the source."""
    n = len(own.distance)
    labels = random.integers(0, CLASSES, n)
    if not even and own.labels == "correlated":
        order = random.permuted(np.tile(np.arange(CLASSES), n // CLASSES // BLOCK + 1))
        labels = np.repeat(order, BLOCK)[:n]
    elif (
        not even and own.labels == "shifted"
    ):  # a shift to the easiest class, which lowers the risk
        labels = np.where(random.random(n) < 0.6, 0, labels)
    distance = own.distance if own.labels == "even" else UNLIKE[labels]
    logits = random.normal(size=(n, CLASSES))
    logits[np.arange(n), labels] += distance
    hit = random.random(n) < own.collapsed
    logits[hit, 0] = logits[hit].max(1) + 2
    classes = logits.argmax(1)
    confidence = max_confidence(probabilities(own.sharpness[:, None] * logits))
    return Answers(confidence, classes, classes == labels)


def source(own: Stream, images: int, random: np.random.Generator) -> Answers:
    """Sample answers for labelled source images with balanced classes."""
    still = own._replace(
        distance=np.full(images, CLEAN), sharpness=np.ones(images), collapsed=np.zeros(images)
    )
    return answers(still, random, even=True)
