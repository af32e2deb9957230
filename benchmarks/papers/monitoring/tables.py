"""False alarms of RiskMonitor on simulated streams whose truth is known; the hypotheses are ours.

The guarantees are those of Howard et al. 2021 and Waudby-Smith & Ramdas 2024, the monitor is that of
Schirmer et al. 2025 (arXiv 2507.08721).
"""

import re
from typing import Any, NamedTuple

import numpy as np

from ....intervals import exact_interval
from ...results.run_statistics import Difference
from ..engine.claims import LATER, OURS, bounded, computed
from ..engine.experiment import table
from ..engine.sources import Simulation
from ..engine.table import Table, tidy

Array = np.ndarray
CLASSES, BATCH, BATCHES, CHANGE = 5, 32, 200, 100
IMAGES = BATCH * BATCHES
CLEAN, HARD, HARDEST = 2.5, 1.5, 1.0  # distance of the label's logit: error of 11, 35 and 51 %
BLOCK = 640  # successive images of one class if labels are correlated
# The distance of each class if classes differ; their mean error is about that of CLEAN.
UNLIKE = np.array([3.4, 3.0, 2.6, 2.2, 1.8])
ALPHA, SOURCE, START = 0.05, 1000, 30
SIZES = {"embedded": (10, 30), "full": (10, 500)}  # groups, and streams per group
RULES = BETS, RUNNING, CONCENTRATION = (
    "confidence, bets",
    "confidence, running",
    "concentration, bets",
)
ALARMS = "streams with an alarm, %"


class Stream(NamedTuple):
    """How logits sharpness * (distance * label + noise) change: numbers, or arrays over the images."""

    distance: Any = CLEAN
    sharpness: Any = 1.0
    collapsed: Any = 0.0  # probability that the prediction is class 0 regardless of the image
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


SHARPER = ramp(1, 3)
DROP, DRIFT = ramp(CLEAN, HARD, CHANGE, CHANGE), ramp(CLEAN, HARDEST)
STREAMS = {
    "clean": Stream(),
    "constant, harder": Stream(HARD, from_start=True),
    "adapting, better": Stream(ramp(CLEAN, 3.5), ramp(1, 2)),
    "sudden drop": Stream(DROP, changes=True),
    "slow drift": Stream(DRIFT, changes=True),
    "sudden drop, adapting": Stream(DROP, SHARPER, changes=True),
    "slow drift, adapting": Stream(DRIFT, SHARPER, changes=True),
    "collapse": Stream(CLEAN, SHARPER, ramp(0, 1, CHANGE, CHANGE + 50), changes=True),
    "correlated labels": Stream(labels="correlated"),
    "label shift": Stream(labels="shifted"),
    "less sure": Stream(CLEAN, ramp(1, 0.5)),
}
GUARANTEED = list(STREAMS)[:3]


def labels_of(stream: Stream, random: np.random.Generator) -> Array:
    """Sample the labels [IMAGES] of a stream."""
    labels = random.integers(0, CLASSES, IMAGES)
    if stream.labels == "correlated":
        order = random.permuted(np.tile(np.arange(CLASSES), IMAGES // CLASSES // BLOCK + 1))
        return np.repeat(order, BLOCK)[:IMAGES]
    # A shift to the easiest class, which lowers the risk.
    shifted = stream.labels == "shifted"
    return np.where(random.random(IMAGES) < 0.6, 0, labels) if shifted else labels


def answers(stream: Stream, labels: Array, random: np.random.Generator) -> Answers:
    """Sample answers for images with these labels."""
    from ....callbacks.functional.confidence import max_confidence, probabilities  # imports torch

    logits = random.normal(size=(len(labels), CLASSES))
    distance = stream.distance if stream.labels == "even" else UNLIKE[labels]
    logits[np.arange(len(labels)), labels] += distance
    hit = random.random(len(labels)) < stream.collapsed
    logits[hit, 0] = logits[hit].max(1) + 2
    classes = logits.argmax(1)
    confidence = max_confidence(probabilities(np.reshape(stream.sharpness, (-1, 1)) * logits))
    return Answers(confidence, classes, classes == labels)


def reference(stream: Stream, answered: Answers, random: np.random.Generator) -> Any:
    """The reference of a monitor: labelled source images, or the start of the stream."""
    from ....callbacks.risk_monitor import Reference  # deferred: imports torch

    if stream.from_start:
        order = random.permutation(START * BATCH)
        start = answered.confidence[order], answered.classes[order]
        return Reference.from_answers(*start, CLASSES)
    labels = random.integers(0, CLASSES, SOURCE)
    confidence, classes, correct = answers(Stream(labels=stream.labels), labels, random)
    return Reference.from_answers(confidence, classes, CLASSES, correct)


def first_alarms(stream: Stream, streams: int, random: np.random.Generator) -> dict[str, Array]:
    """The image at which each monitor raises its alarm on each of `streams` streams; -1: never."""
    counted: dict[str, list[Array]] = {"confidence": [], "concentration": []}
    limits: dict[str, list[float]] = {"confidence": [], "concentration": []}
    for _ in range(streams):
        answered = answers(stream, labels_of(stream, random), random)
        fitted = reference(stream, answered, random)
        counted["confidence"].append(answered.confidence <= fitted.threshold)
        counted["concentration"].append(concentrated(answered.classes))
        for proxy, proxy_limits in limits.items():
            proxy_limits.append(fitted.limit(proxy, ALPHA / 2))
    alarms = {}
    for name in RULES:
        proxy, rule = name.split(", ")
        batches = np.array(counted[proxy], float).T.reshape(BATCHES, BATCH, streams)
        skipped = START if stream.from_start else 0
        alarms[name] = first_alarm(rule, batches, np.array(limits[proxy]), skipped)
    return alarms


def concentrated(classes: Array) -> Array:
    """Whether each image's predicted class is the most frequent one so far, [n]."""
    counts = np.eye(CLASSES)[classes].reshape(BATCHES, BATCH, CLASSES).mean(1)
    shares, most_frequent = counts[0], [np.zeros(BATCH, bool)]
    for batch, batch_shares in zip(classes.reshape(BATCHES, BATCH)[1:], counts[1:], strict=True):
        most_frequent.append(batch == shares.argmax())
        shares = 0.9 * shares + 0.1 * batch_shares
    return np.concatenate(most_frequent)


def first_alarm(rule: str, batches: Array, limits: Array, skipped: int) -> Array:
    """The image [R] of the first alarm of a rule for batches [T,B,R] of R streams."""
    from ....callbacks.functional.sequences import Bets, Running, betted, exceeds, noted

    alarm, bets, running = np.full(len(limits), -1), Bets(limits), Running()
    for number, batch in enumerate(batches[skipped:], skipped + 1):
        if rule == "running":
            running = noted(running, batch)
            raised = exceeds(running, limits, ALPHA / 2)
        else:
            bets = betted(bets, batch)
            raised = bets.highest >= 2 / ALPHA
        alarm = np.where((alarm < 0) & raised, number * BATCH, alarm)
    return alarm


@table(
    "monitoring/alarms",
    Simulation(),
    "simulated streams: how often each monitor raises an alarm, rightly or not",
)
def alarms(scale: str) -> Table:
    groups, streams = SIZES[scale]
    rows = [
        (ALARMS, name, x, f"group {group}", 100 * (alarm > 0).mean())
        for number, (x, stream) in enumerate(STREAMS.items())
        for group in range(groups)
        for name, alarm in first_alarms(
            stream, streams, np.random.default_rng([group, number])
        ).items()
    ]
    notes: list[str] = []
    intervals: dict[str, list[Difference]] = {}
    for (x, name), shares in tidy(rows).frame.groupby(["x", "curve"], sort=False)["value"]:
        if STREAMS[x].changes:
            continue
        n, hits = groups * streams, round(shares.sum() * streams / 100)
        low, high = exact_interval(hits, n)
        notes.append(
            f"{name}, {x}: a false alarm in {hits} of {n} streams ({100 * hits / n:.1f} % "
            f"[{100 * low:.1f}, {100 * high:.1f}])."
        )
        # Expected below ALPHA, or above.
        sign = 1 if x in GUARANTEED else -1
        claim = "level" if x in GUARANTEED else re.sub(r"\W+", "-", f"{x} {name}")
        least, mean, most = sorted(sign * (ALPHA - end) * 100 for end in (low, hits / n, high))
        intervals.setdefault(claim, []).append(Difference(mean, least, most, n))
    return tidy(rows, unit=ALARMS, notes=notes, intervals=intervals)


alarms.claim(
    "level",
    "without a change there is a false alarm in at most 5 % of the streams, frozen or adapting",
    computed("level"),
    group=LATER,
    quote="Waudby-Smith & Ramdas 2024 and Schirmer et al. 2025: at most a share alpha of false alarms",
)
alarms.claim(
    "drop-found",
    "bets on confidence detect a sudden drop and a slow drift of a frozen model in at "
    "least 90 % of the streams",
    bounded(BETS, panel=ALARMS, x=["sudden drop", "slow drift"], least=90),
    group=OURS,
)
alarms.claim(
    "collapse-found",
    "bets on concentration detect a collapse in at least 90 % of the streams",
    bounded(CONCENTRATION, panel=ALARMS, x=["collapse"], least=90),
    group=OURS,
)
alarms.claim(
    "collapse-missed",
    "if a model becomes more and more confident, confidence detects neither a collapse "
    "nor a sudden drop",
    bounded([BETS, RUNNING], panel=ALARMS, x=["collapse", "sudden drop, adapting"], most=20),
    group=OURS,
)
for claim, sentence in {
    "correlated-labels-confidence-bets": "correlated labels break the guarantee of bets on confidence",
    "correlated-labels-concentration-bets": "correlated labels break the guarantee of bets on "
    "concentration",
    "label-shift-concentration-bets": "a label shift that makes the task easier breaks the guarantee of "
    "bets on concentration",
    "less-sure-confidence-bets": "correct predictions that become less confident, which the guarantee "
    "excludes, cause false alarms of the confidence proxy",
}.items():
    alarms.claim(claim, sentence, computed(claim), group=OURS)
