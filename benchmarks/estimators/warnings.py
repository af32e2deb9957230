"""How soon does an estimator tell that the model has collapsed? Delay and false alarms, from records."""

import argparse
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError
from ..results import report
from ..results.report import column
from ..results.text import aligned

Array = np.ndarray
WINDOW = 20  # batches that are averaged, and for which a collapse must last


class Stretch(NamedTuple):
    """Batches `first` to `last`, both included, in which something holds."""

    first: int
    last: int


class EarlyWarning(NamedTuple):
    """What an alarm was worth on one run."""

    collapses: int
    delays: list[
        int
    ]  # images from each noticed collapse to its alarm; negative: the alarm came first
    false_alarms: int
    images: int

    @property
    def missed(self) -> int:
        return self.collapses - len(self.delays)


def trailing_mean(values: Array, window: int = WINDOW) -> Array:
    """The mean of each value and the up to `window` - 1 before it, [n] -> [n]; NaNs do not count."""
    known = ~np.isnan(values)
    sums, counts = (np.cumsum(np.r_[0, v]) for v in (np.where(known, values, 0), known))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - window, 0)
    with np.errstate(invalid="ignore"):
        return (sums[end] - sums[start]) / (counts[end] - counts[start])


def stretches(flags: Array, shortest: int = 1) -> list[Stretch]:
    """The longest stretches in which `flags` [n] is true, if they last `shortest` batches."""
    padded = np.diff(np.r_[0, np.asarray(flags, dtype=int), 0])
    pairs = zip(np.flatnonzero(padded == 1), np.flatnonzero(padded == -1) - 1, strict=True)
    return [Stretch(int(a), int(b)) for a, b in pairs if b - a + 1 >= shortest]


def below(values: Array, reference: Array, window: int = WINDOW) -> Array:
    """Where the trailing mean of `values` lies below that of the reference."""
    return trailing_mean(values, window) < trailing_mean(reference, window)


def dropped(estimates: Array, window: int = 5, margin: float = 0.02, floor: float = 0.2) -> Array:
    """AETTA's rule for a reset, at each batch: an estimate below the floor, or a sudden drop."""
    recent = trailing_mean(estimates, window)
    earlier = np.r_[np.full(min(window, len(recent)), np.nan), recent][: len(recent)]
    earlier[: 2 * window - 1] = np.nan
    return (estimates < floor) | (recent + margin < earlier)


def judge(collapsed: Array, alarm: Array, images: Array, window: int = WINDOW) -> EarlyWarning:
    """Set alarms [n] against the true collapses [n]; `images` [n] are those seen after each batch.

    A collapse is a stretch of at least `window` batches. The first alarm that begins during it, or up to
    `window` batches before, counts for it. Alarms that begin at any other time are false ones: an alarm
    that is always on warns of nothing.
    """
    collapses, alarms = stretches(collapsed, window), stretches(alarm)
    heard = [
        [a for a in alarms if collapse.first - window <= a.first <= collapse.last]
        for collapse in collapses
    ]
    delays = [
        int(images[found[0].first] - images[collapse.first])
        for collapse, found in zip(collapses, heard, strict=True)
        if found
    ]
    true = {alarm for found in heard for alarm in found}
    return EarlyWarning(len(collapses), delays, len(alarms) - len(true), int(images[-1]))


def estimators_of(run: report.Run) -> list[str]:
    """The per-batch estimators that watched a run."""
    names = {key: None for row in run["rows"] for key in row}
    return [name.removesuffix("_error") for name in names if name.endswith("_error")]


def warnings(runs: list[report.Run], window: int = WINDOW) -> list[dict[str, Any]]:
    """For each adapting run, estimator and rule: when it raised the alarm.

    Collapsed means less accurate than the source model on the same images. The rule "below source"
    compares the estimate with the one that the same estimator made for the frozen source model beside
    it; "drop" is AETTA's rule for a reset.
    """
    found = []
    sources = {run["stream_id"]: run for run in runs if not run["adapts"]}
    for run in runs:
        source = sources.get(run["stream_id"])
        if not run["adapts"] or source is None or len(source["rows"]) < len(run["rows"]):
            continue
        size = len(run["rows"])
        images = column(run, "images")
        collapsed = below(column(run, "accuracy"), column(source, "accuracy")[:size], window)
        for name in estimators_of(run):
            estimate, reference = column(run, name), column(source, name)[:size]
            rules = {"drop": dropped(estimate)}
            if not np.isnan(reference).all():
                rules["below source"] = below(estimate, reference, window)
            for rule, alarm in rules.items():
                verdict = judge(collapsed, alarm, images, window)
                facts = {key: run[key] for key in ("stream", "seed", "method")}
                found.append({**facts, "estimator": name, "rule": rule, "warning": verdict})
    return found


def summary(found: list[dict[str, Any]]) -> str:
    """One line for each method, estimator and rule, over streams and seeds."""
    lines = [
        ("method", "estimator", "alarm", "collapses", "missed", "median delay", "false alarms")
    ]
    key = lambda f: (f["method"], f["rule"], f["estimator"])  # noqa: E731
    for (method, rule, name), group in groupby(sorted(found, key=key), key):
        verdicts = [f["warning"] for f in group]
        delays = [delay for verdict in verdicts for delay in verdict.delays]
        images = sum(verdict.images for verdict in verdicts)
        false = sum(verdict.false_alarms for verdict in verdicts)
        lines.append(
            (
                *(method, name, rule, str(sum(v.collapses for v in verdicts))),
                str(sum(v.missed for v in verdicts)),
                f"{np.median(delays):+,.0f} images" if delays else "-",
                f"{false} ({100_000 * false / images:.1f} per 100,000 images)",
            )
        )
    return aligned(lines)


def main(argv: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="holdfast estimators warnings", description=__doc__)
    parser.add_argument("folder", type=Path, help="of a suite that has the source model as well")
    parser.add_argument("--window", type=int, default=WINDOW, help="batches that are averaged")
    args = parser.parse_args(argv)
    if args.window < 1:
        raise HoldfastError("--window must be at least 1.")
    found = warnings(report.collect(args.folder), args.window)
    if not found:
        raise HoldfastError(
            f"{args.folder} has no run with an estimator beside a run of Source on the same stream: add "
            "one, as in `holdfast suite estimators-glyphs`."
        )
    print(summary(found))
    return 0
