"""Monitors with error control: simulations with known truth, whose hypotheses are ours, and embedded CCC.

The guarantees are those of Howard et al. 2021 and Waudby-Smith & Ramdas 2024, the monitors those of
Schirmer et al. 2025 (arXiv 2507.08721).
"""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...alarms import WINDOW
from ...drawing import describe, panels, saved
from ...intervals import exact_interval
from ..results.palette import COLOURS
from ..results.run_statistics import Difference
from ..results.runs import Run
from ..suites.cell import Cell
from .experiment import EMBEDDED, experiment
from .table import Table, tidy

Array = np.ndarray
Runs = list[Run]
Rows = list[tuple[Any, ...]]
CLASSES, BATCH, BATCHES, CHANGE = 5, 32, 200, 100
IMAGES = BATCH * BATCHES
CLEAN, HARD, HARDEST = 2.5, 1.5, 1.0  # distance of the label's logit: error of 10, 33 and 49 %
BLOCK = 640  # successive images of one class if labels are correlated
# The distance of each class if classes differ; their mean error is about that of CLEAN.
UNLIKE = np.array([3.4, 3.0, 2.6, 2.2, 1.8])


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


def stream(
    distance: Any = CLEAN, sharpness: Any = 1.0, collapsed: Any = 0.0, **rest: Any
) -> Stream:
    """A stream with the given changes to the source; each part is a number or an array [IMAGES]."""
    even = np.ones(IMAGES)
    return Stream(distance * even, sharpness * even, collapsed * even, **rest)


def ramp(first: float, last: float, start: int = 0, end: int = BATCHES) -> Array:
    """A number per image: `first` up to batch `start`, then linear to `last` at batch `end`."""
    return np.interp(np.arange(IMAGES) / BATCH, [start, max(end, start + 1e-9)], [first, last])


SHARPER = ramp(1, 3)
DROP, DRIFT = ramp(CLEAN, HARD, CHANGE, CHANGE), ramp(CLEAN, HARDEST)
STREAMS = {
    "clean": stream(),
    "constant, harder": stream(HARD, from_start=True),
    "adapting, better": stream(ramp(CLEAN, 3.5), ramp(1, 2)),
    "sudden drop": stream(DROP, changes=True),
    "slow drift": stream(DRIFT, changes=True),
    "sudden drop, adapting": stream(DROP, SHARPER, changes=True),
    "slow drift, adapting": stream(DRIFT, SHARPER, changes=True),
    "collapse": stream(CLEAN, SHARPER, ramp(0, 1, CHANGE, CHANGE + 50), changes=True),
    "correlated labels": stream(labels="correlated"),
    "label shift": stream(labels="shifted"),
    "less sure": stream(CLEAN, ramp(1, 0.5)),
}
GUARANTEED = list(STREAMS)[:3]


def answers(own: Stream, random: np.random.Generator, even: bool = False) -> Answers:
    """Sample answers for the images of a stream; `even`: with balanced labels, as in the source."""
    from ...callbacks.functional.confidence import max_confidence, probabilities  # imports torch

    n = len(own.distance)
    labels = random.integers(0, CLASSES, n)
    if not even and own.labels == "correlated":
        order = random.permuted(np.tile(np.arange(CLASSES), n // CLASSES // BLOCK + 1))
        labels = np.repeat(order, BLOCK)[:n]
    elif not even and own.labels == "shifted":
        # A shift to the easiest class, which lowers the risk.
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


ALPHA, SOURCE, START, LABELS = 0.05, 1000, 30, 4
STREAMS_PER_SCALE = {"embedded": (10, 30), "full": (10, 500)}  # groups, and streams per group
ALARMS, DELAYS = "streams with an alarm, %", "delay, images"
LABELLED = f"{LABELS} labels a batch, bets"
NO_CONTROL = "confidence, a limit for each batch"
BETS, RUNNING, CONCENTRATION = "confidence, bets", "confidence, running", "concentration, bets"


def reference(own: Stream, found: Answers, random: np.random.Generator) -> tuple[Any, Array]:
    """The reference of a monitor for one stream, and the mean confidence of earlier batches."""
    from ...callbacks.risk_monitor import Reference  # deferred: imports torch

    if own.from_start:
        part = slice(START * BATCH)
        order = random.permutation(START * BATCH)
        start = Reference.from_answers(found.confidence[order], found.classes[order], CLASSES)
        return start, found.confidence[part].reshape(START, BATCH).mean(1)
    labelled = source(own, SOURCE, random)
    fitted = Reference.from_answers(*labelled[:2], CLASSES, labelled.correct)
    return fitted, labelled.confidence[: START * BATCH].reshape(START, BATCH).mean(1)


def watched(own: Stream, streams: int, random: np.random.Generator) -> dict[str, Array]:
    """The image at which each monitor raises its alarm on each of `streams` streams; -1: never."""
    from ...callbacks.functional.sequences import exact_upper, next_limit  # deferred: imports torch

    monitors: dict[str, list[tuple[Array, float]]] = {}  # the values and the limit on each stream
    for _ in range(streams):
        found = answers(own, random)
        fitted, means = reference(own, found, random)
        doubtful = found.confidence <= fitted.threshold
        limits = {name: fitted.limit(name, ALPHA / 2) for name in ("confidence", "concentration")}
        each = {
            BETS: (doubtful, limits["confidence"]),
            RUNNING: (doubtful, limits["confidence"]),
            CONCENTRATION: (concentrated(found.classes), limits["concentration"]),
            NO_CONTROL: (
                -found.confidence.reshape(BATCHES, BATCH).mean(1),
                -next_limit(means, ALPHA / 2),
            ),
        }
        # A stream's start has no labels.
        if fitted.wrong is not None:
            wrong = ~found.correct.reshape(BATCHES, BATCH)[:, :LABELS].reshape(-1)
            each[LABELLED] = wrong, exact_upper(fitted.wrong, fitted.images, ALPHA / 2)
        for name, values in each.items():
            monitors.setdefault(name, []).append(values)
    skipped = START if own.from_start else 0
    order = [BETS, RUNNING, CONCENTRATION, LABELLED, NO_CONTROL]
    return {
        name: first_alarm(name, *map(np.array, zip(*monitors[name], strict=True)), skipped)
        for name in order
        if name in monitors
    }


def concentrated(classes: Array) -> Array:
    """Whether each image's predicted class is the most frequent one so far, [n]."""
    counts = np.eye(CLASSES)[classes].reshape(BATCHES, BATCH, CLASSES).mean(1)
    shares, found = counts[0], [np.zeros(BATCH, bool)]
    for batch, own in zip(classes.reshape(BATCHES, BATCH)[1:], counts[1:], strict=True):
        found.append(batch == shares.argmax())
        shares = 0.9 * shares + 0.1 * own
    return np.concatenate(found)


def first_alarm(name: str, values: Array, limits: Array, skipped: int) -> Array:
    """The image [R] of the first alarm for values [R,n] of R streams, checked after each batch."""
    from ...callbacks.functional.sequences import Bets, Running, betted, exceeds, noted

    parts = values.T.reshape(BATCHES, -1, len(limits))[skipped:].astype(float)
    level, alarm = ALPHA / 2, np.full(len(limits), -1)
    bets, running = Bets(limits), Running()
    for number, part in enumerate(parts, skipped + 1):
        if name == NO_CONTROL:
            raised = part[0] > limits
        elif name == RUNNING:
            running = noted(running, part)
            raised = exceeds(running, limits, level)
        else:
            bets = betted(bets, part)
            raised = bets.highest >= 1 / level
        alarm = np.where((alarm < 0) & raised, number * BATCH, alarm)
    return alarm


def draw_alarms(t: Table, cells: list[Any], path: Path) -> Path:
    """Draw a matrix of monitors by streams: % of streams with an alarm, and the median delay below."""
    names = t.curves(ALARMS)
    shares = np.array([[t.mean(ALARMS, name, x) or 0.0 for name in names] for x in t.xs])
    figure, (ax,) = panels(size=(7.5, 6), framed=True)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=180, aspect="auto")
    for row, x in enumerate(t.xs):
        for column, name in enumerate(names):
            if t.mean(ALARMS, name, x) is None:
                continue
            text = f"{shares[row, column]:.0f} %"
            delay = t.mean(DELAYS, name, x)
            if delay is not None and shares[row, column] > 50:
                text += f"\n{delay:+,.0f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=8)
    ax.set_xticks(range(len(names)), [name.replace(", ", ",\n", 1) for name in names], fontsize=8)
    ax.set_yticks(range(len(t.xs)), [str(x) for x in t.xs], fontsize=8)
    for edge in (2.5, 7.5):
        ax.axhline(edge, color="black", lw=1)
    title = "streams with an alarm; below, images from the change to it"
    ax.set_title(title, loc="left", fontsize=9)
    return saved(figure, path)


@experiment("monitoring/alarms", takes="scale", picture=draw_alarms)
def alarms(scale: str) -> pd.DataFrame:
    """simulated streams: how often each monitor raises an alarm, rightly or not, and how soon"""
    groups, streams = STREAMS_PER_SCALE[scale]
    rows: Rows = []
    notes: list[str] = []
    intervals: dict[str, list[Difference]] = {}
    for number, (x, own) in enumerate(STREAMS.items()):
        raised: dict[str, list[Array]] = {}
        for group in range(groups):
            random = np.random.default_rng([group, number])
            for name, alarm in watched(own, streams, random).items():
                raised.setdefault(name, []).append(alarm)
                place = name, x, f"group {group}"
                rows.append((ALARMS, *place, 100 * (alarm > 0).mean()))
                if own.changes:
                    # To the end of the stream without an alarm.
                    begin = 0 if x.startswith("slow drift") else CHANGE * BATCH
                    delays = np.where(alarm < 0, IMAGES, alarm) - begin
                    rows.append((DELAYS, *place, np.median(delays)))
        for name, parts in ({} if own.changes else raised).items():
            alarm = np.concatenate(parts)
            n, hits = len(alarm), int((alarm > 0).sum())
            low, high = exact_interval(hits, n)
            notes.append(
                f"{name}, {x}: a false alarm in {hits} of {n} streams ({100 * hits / n:.1f} % "
                f"[{100 * low:.1f}, {100 * high:.1f}])."
            )
            guaranteed = x in GUARANTEED and name != NO_CONTROL
            claim = "level" if guaranteed else re.sub(r"[^a-z0-9]+", "-", f"{x} {name}")
            # Expected below or above ALPHA.
            sign = 1 if guaranteed else -1
            ends = sorted(sign * (ALPHA - end) * 100 for end in (low, hits / n, high))
            intervals.setdefault(claim, []).append(Difference(ends[1], ends[0], ends[2], n))
    unit = "streams with an alarm, %; delay, images"
    return tidy(rows, unit=unit, notes=notes, intervals=intervals)


alarms.says(
    "level",
    "without a change there is a false alarm in at most 5 % of the streams, frozen or adapting",
).computed("level")
alarms.ours(
    "drop-found",
    "bets on confidence detect a sudden drop and a slow drift of a frozen model in at least 90 % of the "
    "streams",
).bounded(BETS, ALARMS, ["sudden drop", "slow drift"], least=90)
alarms.ours(
    "bets-sooner",
    "bets on confidence detect a sudden drop and a slow drift sooner than the running mean",
).above(RUNNING, BETS, DELAYS, each=["sudden drop", "slow drift"])
alarms.ours(
    "labels-found",
    "with four labels per batch, every change is detected in at least 80 % of the streams, adapting or not",
).bounded(LABELLED, ALARMS, [x for x, own in STREAMS.items() if own.changes], least=80)
alarms.ours(
    "collapse-found", "bets on concentration detect a collapse in at least 90 % of the streams"
).bounded(CONCENTRATION, ALARMS, ["collapse"], least=90)
alarms.ours(
    "collapse-missed",
    "if a model becomes more and more confident, confidence detects neither a collapse nor a sudden drop",
).bounded([BETS, RUNNING], ALARMS, ["collapse", "sudden drop, adapting"], most=20)
for id, sentence in {
    "correlated-labels-confidence-bets": (
        "correlated labels break the guarantee of bets on confidence"
    ),
    "correlated-labels-concentration-bets": (
        "correlated labels break the guarantee of bets on concentration"
    ),
    "label-shift-concentration-bets": (
        "a label shift that makes the task easier breaks the guarantee of bets on concentration"
    ),
    "less-sure-confidence-bets": (
        "correct predictions that become less confident, which the guarantee excludes, cause false alarms "
        "of the confidence proxy"
    ),
    "clean-confidence-a-limit-for-each-batch": (
        "a limit for each batch alone, at the same level, raises false alarms in more than 5 % of the "
        "streams"
    ),
}.items():
    alarms.ours(id, sentence).computed(id)


# By the columns that the suite's callbacks write, in order.
MONITORS = {
    "RiskMonitor": BETS,
    "RiskMonitor_2": RUNNING,
    "RiskMonitor_3": f"{BETS}, 10 points",
    "RiskMonitor_4": CONCENTRATION,
}
RAISED, FALSE = "runs with an alarm, %", "false alarms per 100,000 images"


def draw_detection(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the means over runs as one point per monitor and per rule on an estimator."""
    figure, (ax,) = panels(size=(7, 4.2))
    for number, name in enumerate(t.curves(DELAYS)):
        rate, delay = (np.mean([*t.by_run(panel, name).values()]) for panel in (FALSE, DELAYS))
        marker = "o" if name in MONITORS.values() else "x"
        colour = COLOURS[number % len(COLOURS)]
        ax.plot(rate, delay, marker, color=colour, ms=8, mew=2, label=name)
    rate_label = "false alarms per 100,000 images, mean of all runs"
    describe(ax, x=rate_label, y="delay, images, mean of runs that collapse")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return saved(figure, path)


@experiment("monitoring/ccc", "monitoring/ccc", picture=draw_detection)
def on_ccc(runs: Runs) -> pd.DataFrame:
    """embedded CCC-Medium: delay and false alarms of every estimator and monitor"""
    from ..results.collapse import below  # deferred: slow imports
    from ..results.estimate_quality import ONLINE, alarm_quality
    from ..results.estimate_quality import alarms as alarms_of

    rows: Rows = []
    for run in runs:
        images, accuracies = run.column("images"), run.of_source("accuracy")
        # WINDOW batches below the source model by more than the margin.
        collapsed = np.zeros(len(images), bool)
        if run.adapts and accuracies is not None:
            collapsed = below(run.column("accuracy"), accuracies, WINDOW)
        for (watcher, rule), alarm in alarms_of(run).items():
            if rule == ONLINE and watcher not in MONITORS:
                continue
            curve = MONITORS[watcher] if rule == ONLINE else f"{watcher}, {rule}"
            place = curve, run.method, run.place
            quality = alarm_quality(collapsed, alarm, images)
            rows.append((RAISED, *place, 100 * bool(alarm.any())))
            # The alarm of a monitor is permanent, so a false one counts once.
            rows.append((FALSE, *place, 100_000 * quality.false_alarms / quality.images))
            if quality.collapses:
                # The delay of an undetected collapse extends to the end of the stream.
                late = images[-1] - images[np.flatnonzero(collapsed)[0]]
                delay = quality.delays[0] if quality.delays else late
                rows.append((DELAYS, *place, delay))
    return tidy(rows, unit="see the panels")


on_ccc.ours(
    "collapse-found",
    "each monitor raises an alarm on every run of Tent, which falls below the source model",
).bounded(MONITORS.values(), RAISED, ["Tent"], least=99)
on_ccc.ours(
    "frozen-quiet",
    "no monitor raises an alarm on the source model, whose difficulty is constant on average",
).bounded(MONITORS.values(), RAISED, ["Source"], most=1)
on_ccc.ours(
    "margin-quieter",
    "with 10 points of tolerance there are fewer alarms on Source and RDumb than without",
).above(BETS, f"{BETS}, 10 points", RAISED, ["Source", "RDumb"])
on_ccc.ours(
    "concentration-sooner",
    "on Tent, concentration detects the collapse earlier than AETTA's rule on SoftmaxScore",
).below(CONCENTRATION, "SoftmaxScore, drop", DELAYS, x="Tent")


MEASURES = {
    "R²": ("r2", 1),
    "Spearman's rho": ("rho", 1),
    "mean absolute error, points": ("error", 100),
    "coverage, %": ("coverage", 100),
    "width, points": ("width", 100),
}
ERROR, COVERAGE = "mean absolute error, points", "coverage, %"


def draw_bands(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw mean coverage against mean error over runs; one panel per method and order of labels."""
    figure, axes = panels(len(t.xs), -(-len(t.xs) // 2), size=(9, 5.2), sharex=True, sharey=True)
    for ax, x in zip(axes, t.xs, strict=True):
        for name, colour in zip(t.curves(COVERAGE), COLOURS, strict=True):
            place = [t.mean(panel, name, x) for panel in (ERROR, COVERAGE)]
            ax.plot(*place, "o", color=colour, label=name if ax is axes[0] else None)
        ax.axhline(95, color="0.7", lw=1, ls="--")
        describe(ax, str(x))
    figure.supxlabel(ERROR, fontsize=9)
    figure.supylabel("batches whose accuracy the band contains, %", fontsize=9)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return saved(figure, path)


@experiment("monitoring/estimates", "monitoring/bands", scale=EMBEDDED, picture=draw_bands)
def bands(runs: Runs) -> pd.DataFrame:
    """embedded glyphs: error, correlation and coverage of estimates with bands, labels independent and
    correlated"""
    from ..results.estimate_quality import WINDOW, of_batches, of_runs

    rows: Rows = []
    for run in runs:
        x = f"{run.method}, {run.setting.lower()}"
        for name in of_batches(run):
            own = of_runs([run], name, WINDOW)
            for panel, (field, scale) in MEASURES.items():
                if not math.isnan(value := getattr(own, field)):
                    rows.append((panel, name, x, f"seed {run.seed}", scale * value))
    return tidy(rows, unit="see the panels")


INDEPENDENT = [f"{method}, independent labels" for method in ("Source", "BNAdapt", "TENT")]
CORRELATED = "BNAdapt, correlated labels"
CONFIDENCES = ["CalibratedConfidence", "DoC", "ATC"]
bands.ours(
    "lines-cover",
    "bands of MaNo, NuclearNorm and Concentration contain the accuracy in at least 90 % of the batches",
).bounded(["MaNo", "NuclearNorm", "Concentration"], COVERAGE, INDEPENDENT, least=90)
bands.ours(
    "sampling-error-misses",
    "a band from the sampling error alone, or from dropout passes, contains it in fewer than 90 %",
).bounded([*CONFIDENCES, "AETTA"], COVERAGE, INDEPENDENT, most=90)
bands.ours(
    "over-confident",
    "confidence calibrated on source images errs more on a model that Tent adapts than on BNAdapt",
).rises(CONFIDENCES, ERROR, start=INDEPENDENT[1], to=INDEPENDENT[2])
bands.ours(
    "correlated",
    "Concentration and NuclearNorm err more with correlated labels, as they mistake few classes for a "
    "collapse",
).rises(["Concentration", "NuclearNorm"], ERROR, start=INDEPENDENT[1], to=CORRELATED)
bands.ours(
    "correlated-confidence",
    "correlated labels change the error of confidence-based estimates by less than two points",
).near(CONFIDENCES, panel=ERROR, x=CORRELATED, to=INDEPENDENT[1], within=2)
