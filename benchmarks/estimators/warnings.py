"""How soon does an estimator tell that the model has collapsed? Delay and false alarms, from records."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...alarms import WINDOW
from ..options import Parser
from ..results.alarms import alarms
from ..results.collapse import AlarmQuality, alarm_quality, below, intervals
from ..results.runs import Run, collect, grouped
from ..results.statistics import last_eighth, mean
from ..results.summary import points
from ..results.text import aligned

Array = np.ndarray


class Watched(NamedTuple):
    """One estimator on one run, with one rule for an alarm."""

    run: Run
    estimator: str
    rule: str
    quality: AlarmQuality


def warnings(runs: list[Run], window: int = WINDOW) -> list[Watched]:
    """For each adapting run, estimator and rule: when it raised the alarm.

    Collapsed means less accurate than the source model on the same images.
    """
    found = []
    for run in runs:
        reference = run.of_source("accuracy")
        if not run.adapts or run.accuracy is None or reference is None:
            continue
        images = run.column("images")
        collapsed = below(run.column("accuracy"), reference, window)
        for (name, rule), alarm in alarms(run, window).items():
            quality = alarm_quality(collapsed, alarm, images, window)
            found.append(Watched(run, name, rule, quality))
    return found


def table(found: list[Watched]) -> str:
    """One line for each method, rule and estimator, over streams and seeds."""
    lines = [
        ("method", "estimator", "alarm", "collapses", "missed", "median delay", "false alarms")
    ]
    groups = grouped(found, lambda w: (w.run.label, w.rule, w.estimator, w.run.override))
    for (label, rule, estimator, _), group in sorted(groups.items()):
        qualities = [warning.quality for warning in group]
        delays = [delay for quality in qualities for delay in quality.delays]
        images = sum(quality.images for quality in qualities)
        false = sum(quality.false_alarms for quality in qualities)
        lines.append(
            (
                *(label, estimator, rule, str(sum(q.collapses for q in qualities))),
                str(sum(q.missed for q in qualities)),
                f"{np.median(delays):+,.0f} images" if delays else "-",
                f"{false} ({100_000 * false / max(images, 1):.1f} per 100,000 images)",
            )
        )
    return aligned(lines)


def estimates_table(runs: list[Run]) -> str:
    """What the estimators say of runs without labels: mean estimates in percent, and alarms."""
    rules = ("drop", "below source")
    lines = [
        ["method", "estimator", "estimate", "last eighth", *(f"alarms: {rule}" for rule in rules)]
    ]
    for run in runs:
        raised = alarms(run)
        for name in run.estimators:
            estimate = run.column(name)
            means = [points(mean(values)) for values in (estimate, last_eighth(estimate))]
            said = [
                when_raised(run, raised[name, rule]) if (name, rule) in raised else "-"
                for rule in rules
            ]
            lines.append([run.label, name, *means, *(said if run.adapts else ("-", "-"))])
    return aligned(lines)


def when_raised(run: Run, alarm: Array) -> str:
    """How many alarms there were, and when the first one began."""
    found = intervals(alarm)
    if not found:
        return "0"
    return f"{len(found)}, first after {run.rows[found[0].first]['images']:,} images"


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators warnings", __doc__, "runs/estimators-glyphs")
    parser.add("folder", type=Path, help="of a suite that has the source model as well")
    parser.add("--window", type=int, default=WINDOW, help="batches that are averaged")
    return parser


def main(argv: list[str]) -> int:
    """Print the table, and draw truth, estimates and resets."""
    args = parser().parse_args(argv)
    if args.window < 1:
        raise HoldfastError("--window must be at least 1.")
    runs = collect(args.folder)
    found = warnings(runs, args.window)
    if found:
        print(table(found))
    elif unlabelled := [run for run in runs if run.estimators and run.accuracy is None]:
        print("There are no labels, so alarms cannot be judged. Estimated accuracy in percent:")
        print(estimates_table(unlabelled))
    else:
        raise nothing_to_judge(args.folder, runs)
    from .figure import draw

    print(f"\nfigure: {draw(runs, args.folder / 'estimates.png')}")
    return 0


def nothing_to_judge(folder: Path, runs: list[Run]) -> HoldfastError:
    """What lacks: an estimator on a run that adapts, labels, or a run of Source."""
    watched = [run for run in runs if run.adapts and run.provenance.get("estimators")]
    if not watched:
        return HoldfastError(
            f"{folder} has no run of a method that adapts with an estimator: add one, as in `holdfast "
            "suite estimators-glyphs`."
        )
    return HoldfastError(
        f"{folder} has no run of Source on the same stream and of the same length beside a run with an "
        "estimator: add one, as in `holdfast suite estimators-glyphs`."
    )
