"""Estimation errors and recovery in the layout of AETTA's tables (Lee et al. 2024)."""

import argparse
from pathlib import Path

import numpy as np

from ... import HoldfastError
from ..papers.aetta import numbers, published, setting
from ..results import report
from ..results.report import column
from ..results.text import aligned
from .warnings import estimators_of

Seeds = dict[int, float]  # a number for each seed


def by_corruption(runs: list[report.Run], name: str) -> dict[str, float]:
    """The mean of a record's column over the batches of each corruption, in all of the runs."""
    corruptions = np.concatenate([[row["corruptions"] for row in run["rows"]] for run in runs])
    values = np.concatenate([column(run, name) for run in runs])
    means = {c: values[(corruptions == c) & ~np.isnan(values)] for c in dict.fromkeys(corruptions)}
    return {c: float(v.mean()) for c, v in means.items() if len(v)}


def over_corruptions(runs: list[report.Run], name: str) -> float:
    """The mean over corruptions of the means over their batches."""
    means = by_corruption(runs, name)
    return float(np.mean(list(means.values()))) if means else float("nan")


def per_seed(runs: list[report.Run], name: str) -> Seeds:
    """`over_corruptions` for each seed."""
    seeds = dict.fromkeys(run["seed"] for run in runs)
    return {s: over_corruptions([run for run in runs if run["seed"] == s], name) for s in seeds}


def cell(values: Seeds) -> str:
    """Mean and standard deviation over seeds, in percentage points."""
    points = 100 * np.array([v for v in values.values() if not np.isnan(v)])
    if not len(points):
        return "-"
    return f"{points.mean():.2f}" + (f" ± {points.std(ddof=1):.2f}" if len(points) > 1 else "")


def averaged(cells: list[Seeds]) -> Seeds:
    """The mean over columns, for the seeds that all of them have."""
    common = set.intersection(*(set(c) for c in cells)) if cells else set()
    return {seed: float(np.mean([c[seed] for c in cells])) for seed in common}


def error_table(runs: list[report.Run]) -> str:
    """Mean absolute error in points: estimators down, methods across."""
    runs = [run for run in runs if run["adapts"] and estimators_of(run)]
    methods = list(dict.fromkeys(run["method"] for run in runs))
    names = list(dict.fromkeys(name for run in runs for name in estimators_of(run)))
    paper = numbers(runs) if runs else {}
    lines = [["estimator", *methods, "Avg"]]
    for name in names:
        cells = [
            per_seed([run for run in runs if run["method"] == method], f"{name}_error")
            for method in methods
        ]
        lines.append([name, *map(cell, cells), cell(averaged(cells))])
        if name in paper:
            lines.append(["  published", *published(paper[name], methods)])
    accuracies = [per_seed([r for r in runs if r["method"] == m], "accuracy") for m in methods]
    lines.append(["(true accuracy)", *map(cell, accuracies), cell(averaged(accuracies))])
    return aligned(lines)


def recovery_table(runs: list[report.Run]) -> str:
    """What each recovery scheme adds to the accuracy, in points: schemes down, methods across.

    A method's runs without a scheme are those whose name has nothing after the first hyphen.
    """
    split = [(*run["method"].partition("-")[::2], run) for run in runs]
    methods = list(dict.fromkeys(method for method, _, _ in split))
    schemes = [scheme for scheme in dict.fromkeys(s for _, s, _ in split) if scheme]
    accuracy = {
        (method, scheme): per_seed(
            [r for m, s, r in split if (m, s) == (method, scheme)], "accuracy"
        )
        for method in methods
        for scheme in ["", *schemes]
    }
    paper = numbers(runs, "AETTA-T3")
    lines = [["recovery", *methods, "Avg"]]
    for scheme in schemes:
        gains = []
        for method in methods:
            before, after = accuracy[method, ""], accuracy[method, scheme]
            gains.append({seed: after[seed] - before[seed] for seed in after if seed in before})
        lines.append([scheme, *map(cell, gains), cell(averaged(gains))])
        if scheme in paper:
            lines.append(["  published", *published(paper[scheme], methods)])
    plain = [accuracy[method, ""] for method in methods]
    lines.append(["(accuracy without)", *map(cell, plain), cell(averaged(plain))])
    return aligned(lines)


def main(argv: list[str]) -> int:
    """Print a table for each setting, and draw the figure."""
    parser = argparse.ArgumentParser(prog="holdfast estimators table", description=__doc__)
    parser.add_argument("folder", type=Path, help="of a suite")
    args = parser.parse_args(argv)
    runs = [run for run in report.collect(args.folder) if run["finished"]]
    if not any(run["adapts"] and (estimators_of(run) or "-" in run["method"]) for run in runs):
        raise HoldfastError(
            f"{args.folder} has no finished run of a method that adapts with an estimator on a stream with "
            "labels, or with a recovery: add one, as in `holdfast suite estimators-glyphs`."
        )
    for name in dict.fromkeys(setting(run) for run in runs):
        here = [run for run in runs if setting(run) == name]
        seeds = sorted({run["seed"] for run in here}, key=str)
        if any(run["adapts"] and estimators_of(run) for run in here):
            print(f"\n{name}: mean absolute error of the estimated accuracy, points, seeds {seeds}")
            print(error_table(here))
        if any("-" in run["method"] for run in here):  # METHOD-OVERRIDE
            print(f"\n{name}: accuracy gained by recovery, points, seeds {seeds}")
            print(recovery_table(here))
    from .figure import draw

    print(f"\nfigure: {draw(runs, args.folder / 'estimates.png')}")
    return 0
