"""A tidy table of a paper: one number per panel, curve, x and run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..results.run_statistics import Difference, Values, above_zero, paired

X = str | float  # the name of a column, or a position along an axis
Selector = Any  # selects x: a value, a list of values, or a keyword of `Table.chosen`
WORST, ALL_BUT_WORST, AVERAGE = "Worst case", "Average (worst excluded)", "Average"


class Row(NamedTuple):
    """One number."""

    panel: str
    curve: str
    x: X
    run: str
    value: float


@dataclass
class Table:
    """Rows of numbers, paired by run.

    unit, axis: the labels of the values and of x. If every x is a number, the table is drawn as curves.
    exact: deterministic numbers (such as path lengths), for which one run is sufficient. log: use a
    logarithmic axis. bounds: limits of the values in the figure. summary: "columns" adds the mean of each
    row's columns (those in `averaged`, default: all), "rows" adds the mean and the worst of each column.
    pooled: further panels, each with the runs of several others. intervals: differences by claim id that do
    not follow from the rows. points: shares of models by panel, drawn with their lines on probit axes.
    """

    rows: list[Row] = field(default_factory=list)
    unit: str = "accuracy, %"
    axis: str = ""
    exact: bool = False
    log: bool = False
    bounds: Sequence[float] = ()
    summary: str = ""
    averaged: dict[str, list[X]] = field(default_factory=dict)
    pooled: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    intervals: dict[str, list[Difference | None]] = field(default_factory=dict)
    points: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Table":
        """Read a table from JSON."""
        intervals = {
            claim: [found and Difference(*found) for found in own]
            for claim, own in content.get("intervals", {}).items()
        }
        rows = [Row(*row) for row in content["rows"]]
        return cls(**{**content, "rows": rows, "intervals": intervals})

    def as_json(self) -> dict[str, Any]:
        """The non-empty fields as JSON."""
        return {"rows": self.rows} | {k: v for k, v in vars(self).items() if v and k[0] != "_"}

    def add(self, panel: str, curve: str, x: X, run: str, value: float) -> None:
        """Append one number."""
        self.rows.append(Row(panel, curve, x, run, float(value)))

    def extend(self, panel: str, curve: str, x: X, values: Values[str]) -> None:
        """Append one number per run."""
        for run, value in values.items():
            self.add(panel, curve, x, run, value)

    @property
    def cells(self) -> dict[tuple[str, str], dict[X, Values[str]]]:
        """{(panel, curve): {x: {run: value}}}."""
        if (known := vars(self).get("_cells")) is None or known[0] != len(self.rows):
            found: dict[tuple[str, str], dict[X, Values[str]]] = {}
            for panel, curve, x, run, value in self.rows:
                found.setdefault((panel, curve), {}).setdefault(x, {})[run] = value
            for name, several in self.pooled.items():
                for panel, curve in [key for key in found if key[0] in several]:
                    for x, values in found[panel, curve].items():
                        found.setdefault((name, curve), {}).setdefault(x, {}).update(values)
            vars(self)["_cells"] = known = (len(self.rows), found)
        return known[1]

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
        return bool(self.rows) and all(isinstance(x, int | float) for x in self.xs)

    @property
    def xs(self) -> list[X]:
        """All x: numbers sorted, names in order of first appearance."""
        found = list(dict.fromkeys(x for cells in self.cells.values() for x in cells))
        numbers = all(isinstance(x, int | float) for x in found)
        return sorted(found) if numbers else found  # type: ignore[type-var]

    def of(self, panel: str, curve: str) -> list[X]:
        """All x of a curve."""
        own = self.cells.get((panel, curve), {})
        return [x for x in self.xs if x in own]

    def values(self, panel: str, curve: str, x: X) -> Values[str]:
        return self.cells.get((panel, curve), {}).get(x, {})

    def mean(self, panel: str, curve: str, x: X) -> float | None:
        values = self.values(panel, curve, x)
        return float(np.mean(list(values.values()))) if values else None

    def by_run(self, panel: str, curve: str, xs: Iterable[X] | None = None) -> Values[str]:
        """The mean over x (default: all) for each run, so that a run counts once."""
        own = self.cells.get((panel, curve), {})
        found: dict[str, list[float]] = {}
        for x in own if xs is None else xs:
            for run, value in own.get(x, {}).items():
                found.setdefault(run, []).append(value)
        return {run: float(np.mean(values)) for run, values in found.items()}

    def difference(
        self,
        one: tuple[str, str],
        other: tuple[str, str],
        xs: Sequence[X],
        others: Sequence[X] | None = None,
    ) -> Difference | None:
        """One (panel, curve) minus another, paired by run; each run is averaged over xs.

        others: x of the other side; default: xs, of which each run uses those that both sides have.
        """
        if others is None:
            first, second = self.cells.get(one, {}), self.cells.get(other, {})
            gaps: dict[str, list[float]] = {}
            for x in xs:
                theirs = second.get(x, {})
                for run, value in first.get(x, {}).items():
                    if run in theirs:
                        gaps.setdefault(run, []).append(value - theirs[run])
            means = {run: float(np.mean(own)) for run, own in gaps.items()}
            return self.decided(above_zero(means))
        return self.decided(paired(self.by_run(*one, xs), self.by_run(*other, others)))

    def decided(self, found: Difference | None) -> Difference | None:
        """The difference; an exact number is its own interval."""
        if found is None or not self.exact:
            return found
        return Difference(found.mean, found.mean, found.mean, found.n)

    def chosen(self, selector: Selector, panel: str = "", curve: str = "") -> list[X]:
        """The x that a selector selects from those of a curve (default: of the table).

        None: all. A value or a list of values. "first", "last", "middle", "rest" (all except the first),
        "inner" (all except both ends), "second half". {from: 2, to: 5}: by position, as in slices.
        {most: 0.5}: up to a value; {least: 200}: from a value.
        """
        xs = self.of(panel, curve) if curve else self.xs
        if selector is None:
            return xs
        if isinstance(selector, list):
            return [x for one in selector for x in self.chosen(one, panel, curve)]
        if isinstance(selector, dict):
            low, high = selector.get("least", -np.inf), selector.get("most", np.inf)
            part = xs[selector.get("from", 0) : selector.get("to")]
            return [x for x in part if isinstance(x, str) or low <= x <= high]
        words = {
            "first": xs[:1],
            "last": xs[-1:],
            "middle": xs[len(xs) // 2 :][:1],
            "rest": xs[1:],
            "inner": xs[1:-1],
            "second half": xs[len(xs) // 2 :],
        }
        return words.get(selector, [selector]) if isinstance(selector, str) else [selector]


def written(x: X) -> str:
    """The header of a column."""
    return x if isinstance(x, str) else f"{x:.12g}"


def summaries(table: Table) -> list[tuple[tuple[str, str], X, float]]:
    """The means that follow from the rows, as ((panel, curve), x, value)."""
    found: list[tuple[tuple[str, str], X, float]] = []
    xs = table.xs
    if table.summary == "columns":
        for name, chosen in (table.averaged or {AVERAGE: xs}).items():
            for key in table.cells:
                means = [table.mean(*key, x) for x in chosen]
                known = [mean for mean in means if mean is not None]
                if len(known) == len(chosen):
                    found.append((key, name, float(np.mean(known))))
    elif table.summary == "rows":
        for x in xs:
            values = sorted(m for key in table.cells if (m := table.mean(*key, x)) is not None)
            if len(values) > 1:
                below = (float(np.mean(values)), values[-1], float(np.mean(values[:-1])))
                names = (AVERAGE, WORST, ALL_BUT_WORST)
                found += [(("", n), x, v) for n, v in zip(names, below, strict=True)]
    return found
