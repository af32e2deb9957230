"""Estimation errors and recovery in the layout of AETTA's tables (Lee et al. 2024)."""

import argparse
from pathlib import Path

from ... import HoldfastError
from ..papers.aetta.setting import published_errors, published_gains, remark, row
from ..results.collapse import alarms, intervals
from ..results.corruptions import by_seed
from ..results.runs import Run, collect, grouped
from ..results.statistics import Array, Seeds, average, last_eighth, mean, mean_and_deviation
from ..results.summary import points
from ..results.text import aligned


def error_table(runs: list[Run]) -> str:
    """Mean absolute error in points: estimators down, methods across."""
    runs = [run for run in runs if run.adapts and run.estimators]
    methods = grouped(runs, lambda run: run.variant)
    labels = [same[0].label for same in methods.values()]
    names = list(dict.fromkeys(name for run in runs for name in run.estimators))
    published = published_errors(runs) if runs else {}
    lines = [["estimator", *labels, "Avg"]]
    for name in names:
        lines.append(line(name, [by_seed(same, f"{name}_error") for same in methods.values()]))
        if name in published:
            lines.append(["  published", *row(published[name], labels)])
    accuracies = [by_seed(same, "accuracy") for same in methods.values()]
    return aligned([*lines, line("(true accuracy)", accuracies)])


def recovery_table(runs: list[Run]) -> str:
    """What each override adds to the accuracy, in points: overrides (schemes) down, methods across."""
    accuracies = {
        variant: by_seed(same, "accuracy")
        for variant, same in grouped(runs, lambda run: run.variant).items()
    }
    methods = list(dict.fromkeys(method for method, _ in accuracies))
    schemes = [s for s in dict.fromkeys(scheme for _, scheme in accuracies) if s]
    published = published_gains(runs)
    lines = [["recovery", *methods, "Avg"]]
    for scheme in schemes:
        gains: list[Seeds] = []
        for method in methods:
            before, after = accuracies.get((method, ""), {}), accuracies.get((method, scheme), {})
            gains.append({seed: after[seed] - before[seed] for seed in after if seed in before})
        lines.append(line(scheme, gains))
        if scheme in published:
            lines.append(["  published", *row(published[scheme], methods)])
    plain = [accuracies.get((method, ""), {}) for method in methods]
    return aligned([*lines, line("(accuracy without)", plain)])


def estimates_table(runs: list[Run]) -> str:
    """What the estimators say of runs without labels: mean estimates in percent, and alarms."""
    rules = ("drop", "below source")
    lines = [
        ["method", "estimator", "estimate", "last eighth", *(f"alarms: {rule}" for rule in rules)]
    ]
    for run in runs:
        for name in run.estimators:
            estimate = run.column(name)
            raised = alarms(estimate, run.of_source(name))
            means = [points(mean(values)) for values in (estimate, last_eighth(estimate))]
            told = [when_raised(run, raised[rule]) if rule in raised else "-" for rule in rules]
            lines.append([run.label, name, *means, *(told if run.adapts else ("-", "-"))])
    return aligned(lines)


def when_raised(run: Run, alarm: Array) -> str:
    """How many alarms there were, and when the first one began."""
    found = intervals(alarm)
    if not found:
        return "0"
    return f"{len(found)}, first after {run.rows[found[0].first]['images']:,} images"


def line(name: str, values: list[Seeds]) -> list[str]:
    """A row of a table, with its average."""
    return [name, *map(mean_and_deviation, values), mean_and_deviation(average(values))]


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast estimators table",
        description=__doc__,
        epilog="example: holdfast estimators table runs/estimators-glyphs",
    )
    parser.add_argument("folder", type=Path, help="of a suite")
    return parser


def main(argv: list[str]) -> int:
    """Print a table for each setting, and draw the figure."""
    args = parser().parse_args(argv)
    runs = [run for run in collect(args.folder) if run.finished]
    if not any(run.adapts and (run.estimators or run.override) for run in runs):
        raise HoldfastError(
            f"{args.folder} has no finished run of a method that adapts with an estimator, or with a "
            "recovery: add one, as in `holdfast suite estimators-glyphs`."
        )
    for setting, same in grouped(runs, lambda run: run.setting).items():
        seeds = sorted({run.seed for run in same}, key=str)
        unlabelled = [run for run in same if run.accuracy is None]
        if any(run.estimators for run in unlabelled):
            print(f"\n{setting}: estimated accuracy in percent; there are no labels")
            print(estimates_table(unlabelled))
        same = [run for run in same if run.accuracy is not None]
        if any(run.adapts and run.estimators for run in same):
            print(
                f"\n{setting}: mean absolute error of the estimated accuracy, points, seeds {seeds}"
            )
            print(error_table(same))
        if any(run.override for run in same):
            print(f"\n{setting}: accuracy gained by recovery, points, seeds {seeds}")
            print(recovery_table(same))
        if note := remark([run for run in same if run.adapts]):
            print(note)
    from .figure import draw

    print(f"\nfigure: {draw(runs, args.folder / 'estimates.png')}")
    return 0
