"""A table of numbers, one for each run, and what can be said about it with certainty."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..results.lines import Points
from ..results.runs import Run
from ..results.statistics import Difference, Values, paired

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


@dataclass
class Table:
    """Rows of columns of numbers: {row: {column: {run: number}}}.

    Numbers of equal runs (stream and seed) can be set against each other. Without `exact` a single one
    says nothing; with it (path lengths) a number is what it is. With an `axis`, columns are numbers along
    it and the table is drawn as curves; rows named "panel: curve" have panels. `intervals` are
    differences whose ends these numbers do not give, since models were drawn anew, by claim. With
    `points` (models of an ensemble, by panel) both lines are drawn on probit axes.
    """

    columns: list[str]
    rows: dict[str, dict[str, Values[str]]]
    unit: str = "accuracy, %"
    axis: str = ""
    exact: bool = False
    notes: list[str] = field(default_factory=list)
    intervals: dict[str, list[Difference | None]] = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Lists, as they are read from JSON, get their names back."""
        self.intervals = {
            claim: [found and Difference(*found) for found in own]
            for claim, own in self.intervals.items()
        }
        self.points = {panel: Points(*own) for panel, own in self.points.items()}

    def add(self, row: str, column: str, run: str, number: float) -> None:
        """Put one run's number where it belongs."""
        self.rows.setdefault(row, {}).setdefault(column, {})[run] = number

    def mean(self, row: str, column: str) -> float | None:
        values = self.rows.get(row, {}).get(column)
        return float(np.mean(list(values.values()))) if values else None

    def pooled(self, row: str, columns: Sequence[str]) -> Values[str]:
        """The numbers of a row in several columns, each under its run and column."""
        cells = self.rows.get(row, {})
        return {f"{run}, {c}": v for c in columns for run, v in cells.get(c, {}).items()}

    def gain(self, row: str, other: str, *columns: str) -> Difference | None:
        """A row less another one over their common runs, in these columns (default: all) together."""
        chosen = columns or tuple(self.columns)
        return self.decided(paired(self.pooled(row, chosen), self.pooled(other, chosen)))

    def more(self, row: str, other: str, *columns: str, by: float) -> Difference | None:
        """As `gain`, less what the gain should be at least."""
        return shifted(self.gain(row, other, *columns), -by)

    def step(self, row: str, column: str, other: str) -> Difference | None:
        """A column less another one over their common runs, in one row."""
        cells = self.rows.get(row, {})
        return self.decided(paired(cells.get(column, {}), cells.get(other, {})))

    def fall(self, row: str, column: str, other: str, by: float) -> Difference | None:
        """As `step`, less what the fall from one column to the other should be at least."""
        return shifted(self.step(row, column, other), -by)

    def near(self, row: str, column: str, other: str, by: float) -> list[Difference | None]:
        """What is above 0 if two columns of a row differ by less than that, either way."""
        return [shifted(self.step(row, *pair), by) for pair in ((column, other), (other, column))]

    def decided(self, found: Difference | None) -> Difference | None:
        """The same; a number that is exact is its own interval."""
        if found is None or not self.exact:
            return found
        return Difference(found.mean, found.mean, found.mean, found.n)

    def as_json(self) -> dict[str, Any]:
        extra = ("intervals", "points")
        return {name: own for name, own in vars(self).items() if own or name not in extra}


class Claim(NamedTuple):
    """A statement of a paper, and the differences that are all above 0 if it holds."""

    text: str
    differences: Callable[[Table], Iterable[Difference | None]]


class Verdict(NamedTuple):
    """What became of a claim, and the difference that decided it."""

    claim: str
    state: str  # HOLDS, FAILS or UNDECIDED
    because: str


def shifted(found: Difference | None, by: float) -> Difference | None:
    """The same with a number added."""
    if found is None:
        return None
    low, high = (None if end is None else end + by for end in found[1:3])
    return Difference(found.mean + by, low, high, found.n)


def judge(claim: Claim, table: Table) -> Verdict:
    """HOLDS if all differences have intervals above 0, FAILS if one lies below, else UNDECIDED."""
    found = list(claim.differences(table))
    known = [d for d in found if d is not None]
    if not known or len(known) < len(found):
        return Verdict(claim.text, UNDECIDED, "runs are missing")
    worst = min(known, key=lambda d: d.mean if d.high is None else d.high)
    if worst.high is not None and worst.high < 0:
        return Verdict(claim.text, FAILS, text_of(worst))
    if all(d.low is not None and d.low > 0 for d in known):
        least = min(known, key=lambda d: d.low or 0)
        return Verdict(claim.text, HOLDS, f"the least difference is {text_of(least)}")
    open_ = min(known, key=lambda d: d.mean if d.low is None else d.low)
    return Verdict(claim.text, UNDECIDED, text_of(open_))


def text_of(found: Difference) -> str:
    """A difference in words."""
    if found.low is None:
        return f"{found.mean:+.2f}, of one run"
    if found.low == found.high:
        return f"{found.mean:+.2f}"
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}], {found.n} pairs"


def accuracies(
    runs: Iterable[Run],
    row: Callable[[Run], str] = lambda run: run.label,
    column: Callable[[Run], str] = lambda run: run.setting,
    rows: Sequence[str] = (),
) -> Table:
    """Accuracy in percent of finished runs, by what the functions call them; `rows` come first."""
    cells: dict[str, dict[str, Values[str]]] = {name: {} for name in rows}
    columns: dict[str, None] = {}
    for run in runs:
        columns.setdefault(column(run))
        if run.finished and run.accuracy is not None:
            cell = cells.setdefault(row(run), {}).setdefault(column(run), {})
            cell[run.place] = 100 * run.accuracy
    return Table(list(columns), {name: cells[name] for name in cells if cells[name]})


def with_average(table: Table, columns: Sequence[str] = (), name: str = "Average") -> Table:
    """The same with the mean of these columns' means (default: all), for rows that have them all."""
    chosen = list(columns or table.columns)
    rows = {}
    for row, cells in table.rows.items():
        means = [table.mean(row, column) for column in chosen]
        known = [mean for mean in means if mean is not None]
        whole = {name: {"mean": float(np.mean(known))}} if len(known) == len(chosen) else {}
        rows[row] = {**cells, **whole}
    return Table([*table.columns, name], rows, table.unit, table.axis, table.exact, table.notes)
