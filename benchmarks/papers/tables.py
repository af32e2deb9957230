"""Tables of finished runs shared by several experiments, with rows and columns by names of runs."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ... import HoldfastError
from ..results.batch_means import by_seed
from ..results.run_protocol import alike
from ..results.run_statistics import Values, average
from ..results.runs import Run, grouped
from .table import Table, X

WINDOWS = 20  # number of windows along a stream
NAMES = ("method", "override", "label", "setting", "stream", "seed")
Renamed = Mapping[Any, str] | None


def name_of(run: Run, key: str, renamed: Renamed = None) -> Any:
    """A name of a run: one of NAMES, or the value of a factor, replaced according to `renamed`."""
    own = getattr(run, key) if key in NAMES else run.factor(key)
    return (renamed or {}).get(own, own)


def sorted_by(
    runs: list[Run], key: str, order: Sequence[str], renamed: Renamed = None
) -> list[Run]:
    """The runs sorted by the position of their names in `order`, all others last."""
    places = {name: n for n, name in enumerate(order)}
    return sorted(runs, key=lambda run: places.get(name_of(run, key, renamed), len(order)))


def accuracy(
    runs: list[Run],
    curve: str = "label",
    x: str = "setting",
    panel: str = "",
    order: Sequence[str] = (),
    renamed: Renamed = None,
    axis: str = "",
    average: Mapping[str, Sequence[X]] | bool = False,
    pooled: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Accuracy in percent by the names of runs.

    order: curves that come first. average: adds the mean over all x, or named means over some x. pooled:
    further panels, each with the runs of several others.

    Raises:
        HoldfastError: if a mean would combine runs of different protocols.
    """
    found = Table(axis=axis, summary="columns" if average else "", pooled=lists(pooled))
    if average or pooled:
        check_alike(runs, curve)
    if isinstance(average, Mapping):
        found.averaged = lists(average)
    for run in sorted_by([run for run in runs if run.finished], curve, order, renamed):
        if run.accuracy is not None:
            place = name_of(run, panel) if panel else ""
            names = (name_of(run, curve, renamed), name_of(run, x, renamed))
            found.add(place, *names, run.place, 100 * run.accuracy)
    return found


def check_alike(runs: list[Run], curve: str) -> None:
    """Refuse a mean over runs of one curve with different protocols."""
    for name, same in grouped(runs, lambda run: name_of(run, curve)).items():
        if not alike(run.protocol for run in same):
            found = "; ".join(dict.fromkeys(str(run.protocol) for run in same))
            raise HoldfastError(
                f"The runs of {name} have different protocols ({found}) and cannot be averaged. Remove "
                "average and pooled, or put the protocols into different panels."
            )


def lists(several: Mapping[str, Sequence[Any]] | None) -> dict[str, list[Any]]:
    return {name: list(own) for name, own in (several or {}).items()}


def over_stream(
    runs: list[Run],
    order: Sequence[str] = (),
    curve: str = "label",
    panel: str = "setting",
    spread: bool = False,
    pooled: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Accuracy in percent in each twentieth of the stream; one panel per setting.

    spread: add a note on the variation of the source accuracy along the stream. pooled: further panels,
    each with the runs of several others.
    """
    found = Table(axis=SHARE, bounds=(0, 100), pooled=lists(pooled))
    for place in dict.fromkeys(name_of(run, panel) for run in runs):
        own = [run for run in runs if name_of(run, panel) == place]
        for run in sorted_by(own, curve, order):
            for x, value in zip(SHARES, windows(run), strict=True):
                found.add(place, name_of(run, curve), x, run.place, value)
        sources = [float(np.std(windows(run))) for run in own if not run.adapts]
        if spread and sources:
            sd = f"{np.mean(sources):.1f} points (standard deviation along the stream)"
            found.notes.append(f"{place}: the source model's accuracy varies by {sd}.")
    return found


def columns_over_stream(runs: list[Run], columns: Mapping[str, Sequence[Any]], unit: str) -> Table:
    """Columns of the records in each twentieth of the stream, one panel per column.

    columns: by panel, the column and the factor by which it is scaled.
    """
    found = Table(axis=SHARE, unit=unit)
    for panel, (column, factor) in columns.items():
        for run in runs:
            for x, value in zip(SHARES, windows(run, column, factor), strict=True):
                found.add(panel, run.label, x, run.place, value)
    return found


SHARE = "share of the stream, %"
SHARES = [100 * (n + 1) // WINDOWS for n in range(WINDOWS)]


def windows(run: Run, column: str = "accuracy", factor: float = 100) -> list[float]:
    """The mean of a column (default: accuracy in percent) in each twentieth."""
    return [factor * float(part.mean()) for part in np.array_split(run.column(column), WINDOWS)]


def estimation_errors(runs: list[Run], gain: str = "") -> Table:
    """Mean absolute errors over corruptions in points: settings, estimators by method, averages.

    gain: an estimator; adds a curve with its reduction of the error relative to the others.
    """
    found = Table(unit="mean absolute error, points")
    watched = [run for run in runs if run.adapts and run.estimators]
    methods = list(dict.fromkeys(run.label for run in watched))
    for setting, same in grouped(watched, lambda run: run.setting).items():
        by_method = grouped(same, lambda run: run.label)
        for name in dict.fromkeys(name for run in same for name in run.estimators):
            cells = {m: points(own, f"{name}_error") for m, own in by_method.items()}
            with_average(found, setting, name, cells)
    for x in [*methods, "Avg"] if gain else ():
        found.extend("", f"{gain}'s gain", x, gains(found, gain, x))
    return found


def with_average(found: Table, panel: str, curve: str, cells: Mapping[str, Values[str]]) -> None:
    """Add a row with the number of each method for each seed, and their average."""
    for method, values in {**cells, "Avg": average(cells.values())}.items():
        found.extend(panel, curve, method, values)


def gains(table: Table, name: str, x: X) -> Values[str]:
    """The gain of an estimator over the others, averaged over them and over the panels."""
    several = []
    for panel, curve in table.cells:
        ours, theirs = table.values(panel, name, x), table.values(panel, curve, x)
        if curve != name and ours:
            several.append({seed: theirs[seed] - ours[seed] for seed in theirs if seed in ours})
    return average(several)


def points(runs: list[Run], name: str) -> Values[str]:
    """The mean of a column in points over corruptions, for each seed."""
    return {f"seed {seed}": 100 * value for seed, value in by_seed(runs, name).items()}


def recovery_gains(runs: list[Run]) -> Table:
    """Accuracy gained over the method alone, in points: overrides by method, and their average."""
    accuracies = {
        variant: points(same, "accuracy")
        for variant, same in grouped(runs, lambda run: run.variant).items()
    }
    methods = list(dict.fromkeys(method for method, _ in accuracies))
    found = Table(unit="accuracy gained, points")
    for scheme in (s for s in dict.fromkeys(scheme for _, scheme in accuracies) if s):
        cells: dict[str, Values[str]] = {}
        for method in methods:
            before, after = accuracies.get((method, ""), {}), accuracies.get((method, scheme), {})
            cells[method] = {s: after[s] - before[s] for s in after if s in before}
        with_average(found, "", scheme, cells)
    return found


def steps_since(marks: list[Any]) -> np.ndarray:
    """The number [n] of batches since the last change of the marks, including the current batch."""
    changed = [True, *(a != b for a, b in pairwise(marks))]
    count, counts = 0, []
    for fresh in changed:
        count = 1 if fresh else count + 1
        counts.append(count)
    return np.array(counts)
