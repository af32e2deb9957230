"""A table of a paper: a tidy frame of numbers, one per panel, curve, x and run, and lookups in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..results.run_statistics import Difference, Values, exactly, paired

COLUMNS = ["panel", "curve", "x", "run", "value"]
X = str | float  # the name of a column, or a position along an axis
Rows = list[tuple[Any, ...]]  # of COLUMNS

# What selects x: None for all, one x, positions, a function of all x, or a list of selectors.
Selector = None | X | slice | Callable[[list[X]], list[X]] | Sequence[Any]
ALL, FIRST, LAST, REST = slice(None), slice(1), slice(-1, None), slice(1, None)
# Of a printed size, as the interval of runs like the paper's extends to both sides of its mean.
MOST_OF = 0.75


def selected(selector: Any, every: list[Any]) -> list[Any]:
    """What a selector selects of all x, or of all names.

    >>> selected([1, LAST], [1, 2, 5])
    [1, 5]
    """
    if selector is None:
        return every
    if isinstance(selector, slice):
        return every[selector]
    if callable(selector):
        return selector(every)
    if isinstance(selector, str | int | float):
        return [selector]
    return [x for one in selector for x in selected(one, every)]


def tidy(rows: Iterable[Sequence[Any]], **facts: Any) -> pd.DataFrame:
    """A frame of rows (panel, curve, x, run, value), with facts about it: other fields of `Table`."""
    frame = pd.DataFrame([*rows], columns=COLUMNS, dtype=object).astype({"value": float})
    frame.attrs = facts
    return frame


def over_seeds(rows: Rows) -> Rows:
    """The mean over those rows that differ in their value only, such as the seeds of one stream.

    >>> over_seeds([("", "Tent", 5, "fog 3", 20.0), ("", "Tent", 5, "fog 3", 22.0)])
    [('', 'Tent', 5, 'fog 3', 21.0)]
    """
    values: dict[tuple[Any, ...], list[float]] = {}
    for *names, value in rows:
        values.setdefault(tuple(names), []).append(value)
    return [(*names, float(np.mean(own))) for names, own in values.items()]


@dataclass
class Table:
    """A tidy frame with its presentation, and lookups in it; numbers are paired by run.

    unit, axis: the labels of the values and of x. If every x is a number, the table is drawn as curves.
    exact: deterministic numbers (such as path lengths), for which one run is sufficient. log: use a
    logarithmic axis. summary: "columns" adds the mean of each row's columns (those in `averaged`, default:
    all), "rows" adds the mean and the worst of each column. pooled: further panels, each with the runs of
    several others. intervals: differences by claim id that do not follow from the rows. points: shares of
    models by panel, drawn with their lines on probit axes.
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

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "Table":
        """The table of a frame with its facts."""
        return cls(frame, **frame.attrs)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Table":
        """Read a table from JSON."""
        facts = {key: value for key, value in content.items() if key != "rows"}
        facts["intervals"] = {
            claim: [found and Difference(*found) for found in several]
            for claim, several in content.get("intervals", {}).items()
        }
        return cls(tidy(content["rows"]), **facts)

    def as_json(self) -> dict[str, Any]:
        """The rows and the non-empty fields as JSON."""
        facts = {own.name: getattr(self, own.name) for own in fields(self)[1:]}
        return {"rows": [*self.rows]} | {name: value for name, value in facts.items() if value}

    @property
    def rows(self) -> Iterator[list[Any]]:
        """The rows [panel, curve, x, run, value]."""
        return map(list, self.frame.itertuples(index=False))

    @cached_property
    def cells(self) -> dict[tuple[str, str], dict[X, Values[str]]]:
        """{(panel, curve): {x: {run: value}}}, pooled panels last."""
        found: dict[tuple[str, str], dict[X, Values[str]]] = {}
        for panel, curve, x, run, value in self.rows:
            found.setdefault((panel, curve), {}).setdefault(x, {})[run] = value
        for name, several in self.pooled.items():
            for panel, curve in [key for key in found if key[0] in several]:
                for x, values in found[panel, curve].items():
                    found.setdefault((name, curve), {}).setdefault(x, {}).update(values)
        return found

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
        found = list(dict.fromkeys(x for cells in self.cells.values() for x in cells))
        numbers = all(isinstance(x, int | float) for x in found)
        return sorted(found) if numbers else found  # type: ignore[type-var]

    def of_curve(self, panel: str, curve: str) -> list[X]:
        """All x of a curve."""
        own = self.cells.get((panel, curve), {})
        return [x for x in self.xs if x in own]

    def chosen(self, selector: Selector, panel: str = "", curve: str = "") -> list[X]:
        """The x that a selector selects from those of a curve (default: of the table)."""
        return selected(selector, self.of_curve(panel, curve) if curve else self.xs)

    def values(self, panel: str, curve: str, x: X) -> Values[str]:
        """The number of each run."""
        return self.cells.get((panel, curve), {}).get(x, {})

    def mean(self, panel: str, curve: str, x: X) -> float | None:
        """The mean over the runs; None without any."""
        values = self.values(panel, curve, x)
        return float(np.mean(list(values.values()))) if values else None

    def by_run(self, panel: str, curve: str, xs: Iterable[X] | None = None) -> Values[str]:
        """The mean over x (default: all) for each run, so that a run counts once."""
        xs = self.of_curve(panel, curve) if xs is None else xs
        return mean_by_run(self.values(panel, curve, x) for x in xs)

    def gap(self, ours: Values[str], theirs: Values[str] | None = None) -> Difference | None:
        """Numbers minus others (default: 0), paired by run; an exact number is its own interval."""
        found = paired(ours, dict.fromkeys(ours, 0.0) if theirs is None else theirs)
        if found is None or not self.exact:
            return found
        return exactly(found.mean, found.n)

    def difference(
        self, one: tuple[str, str], other: tuple[str, str], xs: Iterable[X], share: float = 1
    ) -> Difference | None:
        """One (panel, curve) minus a share of another, by run; averaged over those xs that both have."""
        pairs = ((self.values(*one, x), self.values(*other, x)) for x in xs)
        gaps = ({run: a[run] - share * b[run] for run in a if run in b} for a, b in pairs)
        return self.gap(mean_by_run(gaps))


def mean_by_run(several: Iterable[Values[str]]) -> Values[str]:
    """The mean of each run over those of several numbers that it has."""
    found: dict[str, list[float]] = {}
    for values in several:
        for run, value in values.items():
            found.setdefault(run, []).append(value)
    return {run: float(np.mean(own)) for run, own in found.items()}


def written(x: X) -> str:
    """The header of a column."""
    return x if isinstance(x, str) else f"{x:.12g}"
