"""Simulations with known truth of the true and false alarms of monitors, and of their delays."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ....callbacks.functional.sequences import (
    Bets,
    Running,
    betted,
    exact_interval,
    exact_upper,
    exceeds,
    next_limit,
    noted,
)
from ....callbacks.risk_monitor import Reference
from ....drawing import panels, saved
from ...results.run_statistics import Difference
from ..table import Table
from .streams import BATCH, BATCHES, CHANGE, CLASSES, STREAMS, Answers, Stream, answers, source

Array = np.ndarray
ALPHA, SOURCE, START, LABELS = 0.05, 1000, 30, 4
RUNS = {"embedded": (10, 30), "full": (10, 500)}  # number of groups, and streams per group
LEVEL = "level"  # the claim that the rate of false alarms is at most ALPHA
ALARMS, DELAYS = "streams with an alarm, %", "delay, images"
NO_CONTROL = "confidence, a limit for each batch"
MONITORS = (
    *("confidence, bets", "confidence, running", "concentration, bets"),
    *(f"{LABELS} labels a batch, bets", NO_CONTROL),
)


def reference(own: Stream, found: Answers, random: np.random.Generator) -> tuple[Reference, Array]:
    """The reference of a monitor for one stream, and the mean confidence of earlier batches."""
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
    values: dict[str, list[Array]] = {name: [] for name in MONITORS}
    limits: dict[str, list[float]] = {name: [] for name in MONITORS}
    for _ in range(streams):
        found = answers(own, random)
        fitted, means = reference(own, found, random)
        doubtful = found.confidence <= fitted.threshold
        for rule in ("bets", "running"):
            values[f"confidence, {rule}"].append(doubtful)
            limits[f"confidence, {rule}"].append(fitted.limit("confidence", ALPHA / 2))
        values["concentration, bets"].append(concentrated(found.classes))
        limits["concentration, bets"].append(fitted.limit("concentration", ALPHA / 2))
        name = MONITORS[3]
        values[name].append(~found.correct.reshape(BATCHES, BATCH)[:, :LABELS].reshape(-1))
        # A stream's start has no labels.
        wrong = fitted.wrong
        limits[name].append(1 if wrong is None else exact_upper(wrong, fitted.images, ALPHA / 2))
        values[NO_CONTROL].append(-found.confidence.reshape(BATCHES, BATCH).mean(1))
        limits[NO_CONTROL].append(-next_limit(means, ALPHA / 2))
    skipped = START * BATCH if own.from_start else 0
    return {
        name: first(name, np.stack(values[name], 1), np.array(limits[name]), skipped)
        for name in MONITORS
        if not (own.from_start and name == MONITORS[3])  # a stream's start has no labels
    }


def concentrated(classes: Array) -> Array:
    """Whether each image's predicted class is the most frequent one so far, [n]."""
    counts = np.eye(CLASSES)[classes].reshape(BATCHES, BATCH, CLASSES).mean(1)
    shares, found = counts[0], [np.zeros(BATCH, bool)]
    for batch, own in zip(classes.reshape(BATCHES, BATCH)[1:], counts[1:], strict=True):
        found.append(batch == shares.argmax())
        shares = 0.9 * shares + 0.1 * own
    return np.concatenate(found)


def first(name: str, values: Array, limits: Array, skipped: int) -> Array:
    """The image [R] of the first alarm for values [n,R] of R streams, checked after each batch."""
    size = len(values) // BATCHES
    parts = values.reshape(BATCHES, size, -1)[skipped // BATCH :].astype(float)
    level, alarm = ALPHA / 2, np.full(len(limits), -1)
    bets, running = Bets(limits), Running()
    for number, part in enumerate(parts, skipped // BATCH + 1):
        if name == NO_CONTROL:
            raised = part[0] > limits
        elif name.endswith("running"):
            running = noted(running, part)
            raised = exceeds(running, limits, level)
        else:
            bets = betted(bets, part)
            raised = bets.highest >= 1 / level
        alarm = np.where((alarm < 0) & raised, number * BATCH, alarm)
    return alarm


def table(scale: str, cells: list[Any]) -> Table:
    """The share of streams with an alarm, and its delay after the change."""
    groups, streams = RUNS[scale]
    found = Table(unit="streams with an alarm, %; delay, images")
    for x, make in STREAMS.items():
        own = make()
        alarms: dict[str, list[Array]] = {}
        for group in range(groups):
            random = np.random.default_rng([group, list(STREAMS).index(x)])
            for name, alarm in watched(own, streams, random).items():
                alarms.setdefault(name, []).append(alarm)
                found.add(ALARMS, name, x, f"group {group}", 100 * (alarm > 0).mean())
                if own.changes:
                    found.add(DELAYS, name, x, f"group {group}", np.median(delays(x, alarm)))
        if not own.changes:
            note(found, x, {name: np.concatenate(parts) for name, parts in alarms.items()})
    return found


def delays(x: str, alarm: Array) -> Array:
    """The images from the change to the alarm, or to the end of the stream without an alarm."""
    begin = 0 if x.startswith("slow drift") else CHANGE * BATCH
    return np.where(alarm < 0, BATCHES * BATCH, alarm) - begin


def note(found: Table, x: str, alarms: dict[str, Array]) -> None:
    """Add a note with the exact interval of the share of the n streams with a false alarm."""
    for name, alarm in alarms.items():
        n, hits = len(alarm), int((alarm > 0).sum())
        low, high = exact_interval(hits, n)
        found.notes.append(
            f"{name}, {x}: a false alarm in {hits} of {n} streams ({100 * hits / n:.1f} % "
            f"[{100 * low:.1f}, {100 * high:.1f}])."
        )
        guaranteed = x in list(STREAMS)[:3] and name != NO_CONTROL
        claim = LEVEL if guaranteed else re.sub(r"[^a-z0-9]+", "-", f"{x} {name}")
        sign = 1 if guaranteed else -1  # expected below or above ALPHA
        ends = sorted(sign * (ALPHA - end) * 100 for end in (low, hits / n, high))
        found.intervals.setdefault(claim, []).append(Difference(ends[1], ends[0], ends[2], n))


def picture(found: Table, cells: list[Any], path: Path) -> Path:
    """Draw a matrix of monitors by streams: % of streams with an alarm, and the median delay below."""
    names, streams = found.curves(ALARMS), found.xs
    shares = np.array(
        [[found.mean(ALARMS, name, x) or 0.0 for name in names] for x in streams], dtype=float
    )
    figure, (ax,) = panels(size=(7.5, 6), framed=True)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=180, aspect="auto")
    for row, x in enumerate(streams):
        for column, name in enumerate(names):
            if found.mean(ALARMS, name, x) is None:
                continue
            text = f"{shares[row, column]:.0f} %"
            delay = found.mean(DELAYS, name, x)
            if delay is not None and shares[row, column] > 50:
                text += f"\n{delay:+,.0f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=8)
    ax.set_xticks(range(len(names)), [name.replace(", ", ",\n", 1) for name in names], fontsize=8)
    ax.set_yticks(range(len(streams)), [str(x) for x in streams], fontsize=8)
    for edge in (2.5, 7.5):
        ax.axhline(edge, color="black", lw=1)
    ax.set_title(
        "streams with an alarm; below, images from the change to it", loc="left", fontsize=9
    )
    return saved(figure, path)
