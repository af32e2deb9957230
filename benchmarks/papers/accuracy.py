"""Tables of finished runs that experiments share, with rows and columns by names of runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ... import HoldfastError
from ..results.run_protocol import alike
from ..results.runs import Run, grouped
from .engine.claims import words
from .engine.table import Rows, Table, X, header, tidy

WINDOWS = 20  # number of windows along a stream
SHARES = [100 * (n + 1) // WINDOWS for n in range(WINDOWS)]
SHARE = "share of the stream, %"
NAMES = ("method", "override", "label", "setting", "stream", "seed")
# Points that a larger learning rate may cost: a short stream then behaves like a long one.
COST = 1.5
Renamed = Mapping[Any, X] | None


def name_of(run: Run, key: str, renamed: Renamed = None) -> Any:
    """A name of a run: one of NAMES, or the value of a factor, replaced according to `renamed`."""
    name = getattr(run, key) if key in NAMES else run.factor(key)
    return (renamed or {}).get(name, name)


def sorted_by(
    runs: list[Run], key: str, order: Sequence[str], renamed: Renamed = None
) -> list[Run]:
    """The runs sorted by the position of their names in `order`, all others last."""
    ranks = {name: n for n, name in enumerate(order)}
    return sorted(runs, key=lambda run: ranks.get(name_of(run, key, renamed), len(order)))


def accuracy(
    runs: list[Run],
    curve: str = "label",
    x: str = "setting",
    panel: str = "",
    order: Sequence[str] = (),
    renamed: Renamed = None,
    axis: str = "",
    average: bool | Mapping[str, Sequence[X]] = False,
    pooled: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Accuracy in percent by the names of runs.

    order: curves that come first. average: adds the mean over all x, or named means over some x. pooled:
    further panels, each with the runs of several others.

    Raises:
        HoldfastError: if a mean would combine runs of different protocols.
    """
    scored = [run for run in runs if run.finished and run.accuracy is not None]
    for name, same in grouped(scored, lambda run: name_of(run, curve)).items():
        if (average or pooled) and not alike(run.protocol for run in same):
            protocols = "; ".join(dict.fromkeys(str(run.protocol) for run in same))
            raise HoldfastError(
                f"The runs of {name} have different protocols ({protocols}) and cannot be averaged. Pass "
                "runs of one protocol."
            )
    rows: Rows = []
    for run in sorted_by(scored, curve, order, renamed):
        panel_name = name_of(run, panel) if panel else ""
        names = name_of(run, curve, renamed), name_of(run, x, renamed)
        rows.append((panel_name, *names, run.place, 100 * (run.accuracy or 0.0)))
    averaged = average if isinstance(average, Mapping) else {}
    summary = "columns" if average else ""
    return tidy(rows, axis=axis, summary=summary, averaged=averaged, pooled=pooled or {})


def over_stream(
    runs: list[Run],
    order: Sequence[str] = (),
    curve: str = "label",
    spread: bool = False,
    pooled: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Accuracy in percent in each twentieth of the stream; one panel per setting.

    spread: add a note on the variation of the source accuracy along the stream. pooled: further panels,
    each with the runs of several others.
    """
    rows: Rows = []
    notes = []
    for setting, same in grouped(runs, lambda run: run.setting).items():
        for run in sorted_by(same, curve, order):
            rows += along(setting, name_of(run, curve), run)
        sources = [float(np.std(windows(run))) for run in same if not run.adapts]
        if spread and sources:
            sd = f"{np.mean(sources):.1f} points (standard deviation along the stream)"
            notes.append(f"{setting}: the source model's accuracy varies by {sd}.")
    return tidy(rows, axis=SHARE, pooled=pooled or {}, notes=notes)


def along(
    panel: str, curve: str, run: Run, column: str = "accuracy", factor: float = 100
) -> Iterator[tuple[Any, ...]]:
    """The rows of a run's column in each twentieth of the stream."""
    for x, value in zip(SHARES, windows(run, column, factor), strict=True):
        yield panel, curve, x, run.place, value


def windows(run: Run, column: str = "accuracy", factor: float = 100) -> list[float]:
    """The mean of a column (default: accuracy in percent) in each twentieth."""
    return [factor * float(part.mean()) for part in np.array_split(run.column(column), WINDOWS)]


def by_rate(runs: list[Run], panel: str = "") -> Table:
    """Accuracy by learning rate.

    A method of which intervals between resets were tried has a curve for each.
    """
    renamed = {
        run.label: ", every ".join(filter(None, (run.method, str(run.factors.get("every", "")))))
        for run in runs
    }
    table = accuracy(
        runs, curve="label", x="lr", panel=panel, renamed=renamed, axis="learning rate"
    )
    table.log = True
    return table


def rate_notes(table: Table) -> list[str]:
    """The best rate of each curve, and the largest rate within COST of it."""
    text = "{}: the best rate is {}, the largest within {} points of it {}."
    notes = []
    for panel_name, method in table.cells:
        best, largest = map(header, rates(table, method, panel_name))
        notes.append(text.format(words(panel_name, method), best, COST, largest))
    return notes


def rates(table: Table, method: str, panel: str = "") -> tuple[X, X]:
    """The best learning rate of a method, and the largest one within COST of it."""
    means = {x: m for x in table.xs if (m := table.mean(panel, method, x)) is not None}
    best = max(means, key=means.__getitem__)
    return best, [x for x in means if means[x] >= means[best] - COST][-1]
