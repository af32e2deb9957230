"""Measure the detection delay and false alarms of estimators as collapse detectors, from run records."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError
from ...alarms import WINDOW
from ...command_parser import Parser
from ...drawing import panels, saved
from ..results.collapse import AlarmQuality, alarm_quality, below, intervals, trailing_mean
from ..results.pictures import COLOURS
from ..results.run_alarms import alarms
from ..results.run_statistics import last_eighth, mean
from ..results.runs import Run, collect, grouped
from ..results.summary_tables import points
from ..results.text_table import aligned

Array = np.ndarray


class Watched(NamedTuple):
    """One estimator on one run, with one alarm rule."""

    run: Run
    estimator: str
    rule: str
    quality: AlarmQuality


def warnings(runs: list[Run], window: int = WINDOW) -> list[Watched]:
    """The alarms of each adapting run, estimator and rule.

    A run has collapsed where its accuracy is below the source model's on the same images.
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
    """One line per method, rule and estimator, aggregated over streams and seeds."""
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
    """Mean estimates in percent and the alarms of unlabelled runs."""
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
    """The number of alarms, and the image count at which the first one began."""
    found = intervals(alarm)
    if not found:
        return "0"
    return f"{len(found)}, first after {run.rows[found[0].first]['images']:,} images"


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators warnings", __doc__, "runs/estimators-glyphs")
    parser.add("folder", type=Path, help="folder of a suite that includes the source model")
    parser.add(
        "--window",
        type=int,
        default=WINDOW,
        help="batches averaged before the rules apply (default: %(default)s)",
    )
    return parser


def main(argv: list[str]) -> int:
    """Print the table, and draw truth, estimates and resets."""
    args = parser().parse_args(argv)
    if args.window < 1:
        raise HoldfastError(f"--window must be at least 1, not {args.window}.")
    runs = collect(args.folder)
    found = warnings(runs, args.window)
    if found:
        print(table(found))
    elif unlabelled := [run for run in runs if run.estimators and run.accuracy is None]:
        print("The runs have no labels to evaluate alarms. Estimated accuracy in percent:")
        print(estimates_table(unlabelled))
    else:
        raise nothing_to_judge(args.folder, runs)
    print(f"\nfigure: {draw(runs, args.folder / 'estimates.png')}")
    return 0


TRAILING = 10  # batches per trailing mean in the figure


def draw(runs: list[Run], path: Path) -> Path:
    """Draw one panel per adapting run of the first stream and seed with estimators; returns the path.

    Lines are trailing means over 10 batches, which use no future batches; AETTA's figure 4 uses a Gaussian
    filter.
    """
    from matplotlib.ticker import FuncFormatter  # deferred: slow import

    watched = [run for run in runs if run.adapts and run.estimators]
    first = [run for run in watched if run.stream_id == watched[0].stream_id]
    names = list(dict.fromkeys(name for run in first for name in run.estimators))
    count = max(1, len(first))
    figure, axes = panels(count, 1, size=(8, 1.2 + 2.6 * count), sharex=True)
    for run, ax in zip(first, axes, strict=False):
        panel(ax, run, names)
    axes[-1].set_xlabel("images seen")
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    several = [ax.get_legend_handles_labels() for ax in axes]
    handles = {text: line for own in several for line, text in zip(*own, strict=True)}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False)
    return saved(figure, path, dpi=150)


def panel(ax: Any, run: Run, names: list[str]) -> None:
    """One run: accuracy in black, estimates in colours, resets as ticks, collapse shaded."""
    from matplotlib.ticker import PercentFormatter

    images, accuracy = run.column("images"), run.column("accuracy")
    if run.accuracy is not None:
        ax.plot(
            images, trailing_mean(accuracy, TRAILING), color="black", lw=2.2, label="true accuracy"
        )
    for name, colour in zip(names, COLOURS * 3, strict=False):
        estimate = trailing_mean(run.column(name), TRAILING)
        ax.plot(images, estimate, color=colour, lw=1.2, label=name)
    reference = run.of_source("accuracy")
    if run.accuracy is not None and reference is not None:
        grey: dict[str, Any] = {"color": "0.5", "ls": "--", "lw": 1.2}
        ax.plot(images, trailing_mean(reference, TRAILING), label="source model", **grey)
        for first, last in intervals(below(accuracy, reference), 20):
            shade: dict[str, Any] = {"color": "#D55E00", "alpha": 0.1, "lw": 0}
            ax.axvspan(images[first], images[last], label="below the source model", **shade)
    resets = images[run.column("reset") > 0]
    if len(resets):
        ax.plot(resets, np.zeros(len(resets)), "|k", ms=9, mew=1.5, clip_on=False, label="reset")
    ax.set_title(f"{run.label} on {run.stream}, seed {run.seed}", loc="left", fontsize=11)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_ylim(0, 1)
    ax.grid(axis="y", color="0.9")


def nothing_to_judge(folder: Path, runs: list[Run]) -> HoldfastError:
    """The error for a folder without an estimator on an adapting run, or without a run of Source."""
    watched = [run for run in runs if run.adapts and run.provenance.get("estimators")]
    if not watched:
        return HoldfastError(
            f"{folder} contains no adapting run with an estimator. Add one, as in `holdfast suite "
            "aetta/estimators --scale quick`."
        )
    return HoldfastError(
        f"{folder} contains a run with an estimator but no run of Source on the same stream with the same "
        "length. Add one, as in `holdfast suite aetta/estimators --scale quick`."
    )
