"""A table of a paper: a tidy frame with a number for each panel, curve, x and run, and lookups in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ...results.run_statistics import Difference, Values, exactly, paired

COLUMNS = ["panel", "curve", "x", "run", "value"]
X = str | float  # the name of a column, or a position along an axis
Rows = list[tuple[Any, ...]]  # of COLUMNS
Item = TypeVar("Item")


@dataclass(frozen=True)
class Positions:
    """Items by position, from `first` to `last`: 1 is the first item, -1 the last.

    >>> Positions(2, -1).of(["a", "b", "c"])
    ['b', 'c']
    """

    first: int
    last: int

    def of(self, items: Sequence[Item]) -> list[Item]:
        """The items at these positions."""
        start = self.first - 1 if self.first > 0 else max(len(items) + self.first, 0)
        end = self.last if self.last > 0 else len(items) + self.last + 1
        return list(items[start:end])


ALL, FIRST, LAST, REST = Positions(1, -1), Positions(1, 1), Positions(-1, -1), Positions(2, -1)


class Except:
    """All names but these."""

    def __init__(self, *names: X) -> None:
        self.names = names

    def of(self, items: Sequence[Item]) -> list[Item]:
        """The items that are not named."""
        return [item for item in items if item not in self.names]


class Present:
    """Those of these names that a table has, such as the difficulties that a scale has streams of."""

    def __init__(self, *names: X) -> None:
        self.names = names

    def of(self, items: Sequence[Item]) -> list[Item]:
        """The items that are named."""
        return [item for item in items if item in self.names]


# What selects curves, panels or x: None for all, a name, names, or one of the classes above.
Selection = None | X | Sequence[X] | Positions | Except | Present


def selected(selection: Selection, items: Sequence[Any]) -> list[Any]:
    """What is selected of these items; names are taken as they are, whether or not they are among them.

    >>> selected("b", ["a", "b"]), selected(LAST, [1, 2, 5]), selected(Except("a"), ["a", "b"])
    (['b'], [5], ['b'])
    """
    if selection is None:
        return list(items)
    if isinstance(selection, Positions | Except | Present):
        return selection.of(items)
    return [selection] if isinstance(selection, str | int | float) else list(selection)


def tidy(rows: Iterable[Sequence[Any]], **facts: Any) -> "Table":
    """The table of rows (panel, curve, x, run, value), with other fields of `Table`."""
    frame = pd.DataFrame([*rows], columns=COLUMNS, dtype=object).astype({"value": float})
    return Table(frame, **facts)


def over_seeds(rows: Rows) -> Rows:
    """The mean over those rows that differ in their value only, such as the seeds of one stream.

    >>> over_seeds([("", "Tent", 5, "fog 3", 20.0), ("", "Tent", 5, "fog 3", 22.0)])
    [('', 'Tent', 5, 'fog 3', 21.0)]
    """
    values: dict[tuple[Any, ...], list[float]] = {}
    for *names, value in rows:
        values.setdefault(tuple(names), []).append(value)
    return [(*names, float(np.mean(numbers))) for names, numbers in values.items()]


@dataclass
class Table:
    """A tidy frame with its presentation, and lookups in it; numbers are paired by run.

    unit, axis: the labels of the values and of x. If every x is a number, the table is drawn as curves.
    exact: deterministic numbers (such as path lengths), for which one run is sufficient. log: use a
    logarithmic axis. summary: "columns" adds the mean of each row's columns (those in `averaged`, default:
    all), "rows" adds the mean and the worst of each column. pooled: further panels, each with the runs of
    several others. intervals: differences by claim id that do not follow from the rows. points: shares of
    models by panel, drawn with their lines on probit axes. full: the runs are the paper's own data.
    """

    frame: pd.DataFrame
    unit: str = "accuracy, %"
    axis: str = ""
    exact: bool = False
    log: bool = False
    summary: str = ""
    averaged: Mapping[str, Sequence[X]] = field(default_factory=dict)
    pooled: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    intervals: Mapping[str, Sequence[Difference | None]] = field(default_factory=dict)
    points: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    full: bool = False

    @classmethod
    def read(cls, results: Mapping[str, Any]) -> "Table":
        """The table of an experiment's results in JSON."""
        content = results["table"]
        facts = {key: value for key, value in content.items() if key != "rows"}
        facts["intervals"] = {
            claim: [None if numbers is None else Difference(*numbers) for numbers in differences]
            for claim, differences in content.get("intervals", {}).items()
        }
        return tidy(content["rows"], **facts, full=results.get("scale") == "full")

    def as_json(self) -> dict[str, Any]:
        """The rows and the non-empty fields as JSON."""
        names = [fact.name for fact in fields(self) if fact.name not in ("frame", "full")]
        facts = {name: getattr(self, name) for name in names}
        return {"rows": [*self.rows]} | {name: value for name, value in facts.items() if value}

    @property
    def rows(self) -> Iterator[list[Any]]:
        """The rows [panel, curve, x, run, value]."""
        return map(list, self.frame.itertuples(index=False))

    @cached_property
    def cells(self) -> dict[tuple[str, str], dict[X, Values[str]]]:
        """{(panel, curve): {x: {run: value}}}, pooled panels last."""
        cells: dict[tuple[str, str], dict[X, Values[str]]] = {}
        for panel, curve, x, run, value in self.rows:
            cells.setdefault((panel, curve), {}).setdefault(x, {})[run] = value
        for name, panels in self.pooled.items():
            for panel, curve in [key for key in cells if key[0] in panels]:
                for x, values in cells[panel, curve].items():
                    cells.setdefault((name, curve), {}).setdefault(x, {}).update(values)
        return cells

    @property
    def panels(self) -> list[str]:
        """Names of the panels, pooled ones last."""
        return list(dict.fromkeys(panel for panel, _ in self.cells))

    def curves(self, panel: str | None = None) -> list[str]:
        """Names of the curves, of one panel or of all."""
        return list(dict.fromkeys(c for p, c in self.cells if panel in (None, p)))

    @property
    def along(self) -> bool:
        """Whether x is a position along an axis."""
        return bool(self.xs) and all(isinstance(x, int | float) for x in self.xs)

    @cached_property
    def xs(self) -> list[X]:
        """All x: numbers sorted, names in order of first appearance."""
        xs = list(dict.fromkeys(x for cells in self.cells.values() for x in cells))
        numbers = all(isinstance(x, int | float) for x in xs)
        return sorted(xs) if numbers else xs  # type: ignore[type-var]

    def xs_of(self, panel: str, curve: str) -> list[X]:
        """All x of a curve."""
        cells = self.cells.get((panel, curve), {})
        return [x for x in self.xs if x in cells]

    def values(self, panel: str, curve: str, x: X) -> Values[str]:
        """The number of each run."""
        return self.cells.get((panel, curve), {}).get(x, {})

    def mean(self, panel: str, curve: str, x: X) -> float | None:
        """The mean over the runs; None without any."""
        values = self.values(panel, curve, x)
        return float(np.mean(list(values.values()))) if values else None

    def by_run(self, panel: str, curve: str, xs: Iterable[X] | None = None) -> Values[str]:
        """The mean over x (default: all) for each run, so that a run counts once."""
        xs = self.xs_of(panel, curve) if xs is None else xs
        return _mean_by_run(self.values(panel, curve, x) for x in xs)

    def gap(self, ours: Values[str], theirs: Values[str] | None = None) -> Difference | None:
        """Numbers minus others (default: 0), paired by run; an exact number is its own interval."""
        difference = paired(ours, dict.fromkeys(ours, 0.0) if theirs is None else theirs)
        if difference is None or not self.exact:
            return difference
        return exactly(difference.mean, difference.n)

    def difference(
        self, curve: tuple[str, str], other: tuple[str, str], xs: Iterable[X], share: float = 1
    ) -> Difference | None:
        """One (panel, curve) minus a share of another, by run; averaged over those xs that both have."""
        pairs = ((self.values(*curve, x), self.values(*other, x)) for x in xs)
        gaps = ({run: a[run] - share * b[run] for run in a if run in b} for a, b in pairs)
        return self.gap(_mean_by_run(gaps))


def _mean_by_run(numbers: Iterable[Values[str]]) -> Values[str]:
    """The mean of each run over those of several numbers that it has."""
    by_run: dict[str, list[float]] = {}
    for values in numbers:
        for run, value in values.items():
            by_run.setdefault(run, []).append(value)
    return {run: float(np.mean(values)) for run, values in by_run.items()}


def header(x: X) -> str:
    """The header of a column."""
    return x if isinstance(x, str) else f"{x:.12g}"
