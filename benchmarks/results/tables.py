"""Tables of runs: one row per run, or one row per method and setting; as data frames and as text.

A row is a mapping from names, which JSON and CSV have too, to values: accuracies in [0,1], None if unknown.
`run_row` makes the row of a run, `means` those of the runs of one method in one setting.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from ... import one_of
from .collapse import gap, is_negative
from .deadline import Limit, discrete_utility, utility
from .groups import Groups
from .recovery_time import recovery_time
from .run_protocol import alike
from .run_statistics import Difference, paired
from .runs import Run, collect
from .text_table import BOLD, decimals, percent, points

_WIDE = 6  # maximum number of settings as columns
_BELOW = "↓"  # marks a mean below the source model's
_PARTS = ("low", "high", "runs")  # of a `Difference`, beside its mean
Row = dict[str, Any]

# The properties of runs that are reported; add a property here to report it.
_ACCURACY = ("accuracy", "accuracy_last_eighth", "accuracy_per_image", "nll", "ece")
_COLLAPSE = ("below_source", "collapsed", "collapse_step", "resets", "never_updated")
_IMAGES = ("images_used", "not_finite", "not_finite_images", "images", "images_per_second")
_RESULTS = ("override", "setting", *_ACCURACY, *_COLLAPSE, *_IMAGES, "finished", "adapts")
_CONTINUOUS = ("deadline_utility", "deadline_timeliness", "deadline_alignment")
_DISCRETE = ("discrete_utility", "availability")
_RECOVERY = ("recovery_images", "recovery_images_worst")
_NAMES = ("method", "override", "stream", "setting", "seed")


@dataclass(frozen=True)
class Column:
    """A column of a table: its name in JSON and CSV, and its head and texts in other formats."""

    name: str
    head: str | None = None  # default: the name; "" if only JSON and CSV have it
    aggregate: tuple[str, str] | None = None  # of several runs: an entry of `run_row`, and how
    text: Callable[[Any], str] = str  # of a value; "-" stands for None
    row_text: Callable[[Row], str] | None = None  # if it needs the whole row
    rare: bool = False  # the text lacks it if no row has a value, unless it is asked for

    def of(self, row: Row) -> str:
        """The text of a row."""
        if self.row_text is not None:
            return self.row_text(row)
        return "-" if row[self.name] is None else self.text(row[self.name])


def load(*folders: str | Path) -> pd.DataFrame:
    """A data frame with one row per run with results below these folders.

    Its columns have the names of the entries in `holdfast report --json`.

    Raises HoldfastError if a folder does not exist.
    """
    return frame(collect(*map(Path, folders)))


def frame(runs: Iterable[Run]) -> pd.DataFrame:
    return pd.DataFrame(list(map(run_row, runs))).drop(columns="names", errors="ignore")


def run_row(run: Run) -> Row:
    """The results of one run, and what identifies it."""
    row: Row = {"stream": run.stream, "seed": run.seed, "method": run.label}
    row |= {name: getattr(run, name) for name in _RESULTS}
    return row | {
        "gain_over_source": _gain(run, run.source),
        "gain_over_bnadapt": _gain(run, run.bnadapt),
        **_values(_CONTINUOUS, utility(run, Limit(*run.limit)) if run.limit else None),
        **_values(_DISCRETE, discrete_utility(run)),
        **_values(_RECOVERY, recovery_time(run)),
        "time_in_sources": run.step_seconds / run.source.step_seconds if run.source else None,
        "started": run.provenance["started"],
        "stream_id": run.stream_id,
        "folder": str(run.folder),
        "names": {name: getattr(run, name) for name in _NAMES},
        "protocol": str(run.protocol),
    }


def _values(names: Sequence[str], values: Iterable[Any] | None) -> Row:
    return dict(zip(names, values or [None] * len(names), strict=True))


def _gain(run: Run, other: Run | None) -> float | None:
    """The accuracy of an adapting run minus that of another on the same images."""
    if not run.adapts or other is None or other is run:
        return None
    ours, theirs = run.accuracy, other.accuracy
    return None if ours is None or theirs is None else ours - theirs


def _mean_text(row: Row) -> str:
    """Mean ± sd in percent, the number of runs if some are missing, and ↓ if below the source model.

    Of the `best`, which a table for LaTeX marks, in BOLD.
    """
    text = points(row["accuracy"], row["sd"])
    if row["sd"] is not None:
        text += f" ± {points(row['sd'], row['sd'])}"
    if row["below_source"]:
        text += f" {_BELOW}"
    if row["runs"] < row["runs_wanted"]:
        text += f" ({row['runs']} of {row['runs_wanted']})"
    return f"{BOLD[0]}{text}{BOLD[1]}" if row.get("best") else text


def _collapse_text(row: Row) -> str:
    """The number of collapsed runs, and the step of the first collapse; "?" without a source model."""
    if row["collapsed"] is None:
        return "-" if row["runs"] and not row["adapts"] else "?"
    text, first = f"{row['collapsed']} of {row['compared']}", row["first_collapse_step"]
    return text if first is None else f"{text}, step {first:,}"


def _difference_text(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return "-"
    digits = decimals(None if low is None or high is None else (high - low) / 2)
    text, *ends = (f"{100 * v:+.{digits}f}" for v in (mean, low, high) if v is not None)
    return f"{text} [{', '.join(ends)}]" if ends else text


def _gain_column(name: str, other: str) -> Column:
    def text(row: Row) -> str:
        return _difference_text(row[name], row[f"{name}_low"], row[f"{name}_high"])

    return Column(name, f"over {other} [95 %]", (name, "mean"), row_text=text, rare=True)


def _recovery_text(row: Row) -> str:
    """The median and the largest number of images after a change of the corruption."""
    if row["recovery_images"] is None:
        return "-"
    return f"{row['recovery_images']:,.0f}, at most {row['recovery_images_worst']:,.0f}"


_YES = {True: "yes", False: "no"}.__getitem__
_TWO_DECIMALS = "{:.2f}".format
_RUN_COLUMNS = (
    Column("stream"),
    Column("seed"),
    Column("method"),
    Column("accuracy", text=percent),
    Column("accuracy_last_eighth", text=percent),
    Column("nll", text=_TWO_DECIMALS, rare=True),
    Column("ece", text=percent, rare=True),
    Column("images_used", text=percent, rare=True),
    Column("deadline_utility", text=percent, rare=True),
    Column("deadline_timeliness", text=percent, rare=True),
    Column("deadline_alignment", text="{:+.4f}".format, rare=True),
    Column("discrete_utility", text=percent, rare=True),
    Column("availability", text=percent, rare=True),
    Column("recovery_images", row_text=_recovery_text, rare=True),
    Column("below_source", text=_YES),
    Column("collapsed", text=_YES),
    Column("never_updated", text=_YES, rare=True),
    Column("finished", text=_YES),
    Column("resets"),
    Column("not_finite", rare=True),
    Column("not_finite_images", rare=True),
    Column("images_per_second", text="{:,.0f}".format),
)
_MEAN_COLUMNS = (
    Column("setting"),
    Column("method"),
    Column("accuracy", None, ("accuracy", "mean"), row_text=_mean_text),
    Column("sd", "", ("accuracy", "std")),
    Column("runs", "", ("accuracy", "count")),
    Column("last_eighth", None, ("accuracy_last_eighth", "mean"), points),
    Column("nll", "NLL", ("nll", "mean"), _TWO_DECIMALS, rare=True),
    Column("ece", "ECE", ("ece", "mean"), points, rare=True),
    Column("collapsed", None, ("collapsed", "sum"), row_text=_collapse_text),
    Column("compared", "", ("collapsed", "count")),  # runs with a source model on the same images
    Column("first_collapse_step", "", ("collapse_step", "min")),
    _gain_column("gain_over_source", "Source"),
    _gain_column("gain_over_bnadapt", "BNAdapt"),
    Column(
        "time_in_sources", "time × Source", ("time_in_sources", "median"), _TWO_DECIMALS, rare=True
    ),
    Column("never_updated", None, ("never_updated", "sum"), lambda n: str(n or "-"), rare=True),
    Column("images_used", None, ("images_used", "mean"), points, rare=True),
    Column("deadline_utility", None, ("deadline_utility", "mean"), points, rare=True),
    Column("deadline_timeliness", None, ("deadline_timeliness", "mean"), points, rare=True),
    Column("deadline_alignment", None, ("deadline_alignment", "mean"), "{:+.4f}".format, rare=True),
    Column("discrete_utility", None, ("discrete_utility", "mean"), points, rare=True),
    Column("availability", None, ("availability", "mean"), points, rare=True),
    Column(
        "recovery_images", None, ("recovery_images", "median"), row_text=_recovery_text, rare=True
    ),
    Column("recovery_images_worst", "", ("recovery_images_worst", "max")),
    Column("adapts", "", ("adapts", "max")),
)


def runs_table(runs: Sequence[Run], names: Sequence[str] = ()) -> pd.DataFrame:
    """One row per run as text, with these columns (default: all but empty ones)."""
    return _as_text(list(map(run_row, runs)), _RUN_COLUMNS, names)


def details(table: pd.DataFrame, names: Sequence[str] = ()) -> pd.DataFrame:
    """One row per method and setting as text, with these columns (default: all but empty ones).

    By default the column of a single setting is omitted.
    """
    single = not names and table["setting"].nunique() == 1
    return _as_text(records(table), _MEAN_COLUMNS[single:], names)


def _as_text(rows: Sequence[Row], columns: Sequence[Column], names: Sequence[str]) -> pd.DataFrame:
    known = {column.name: column for column in columns if column.head != ""}
    check_columns(names, known)
    texts = {name: [known[name].of(row) for row in rows] for name in names or known}
    if not names:
        empty = {"-", "no", "0"}
        texts = {k: v for k, v in texts.items() if not known[k].rare or not empty.issuperset(v)}
    return pd.DataFrame({known[k].head or k.replace("_", " "): v for k, v in texts.items()})


def check_columns(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise HoldfastError if a name is not one of the known ones."""
    for name in names:
        one_of(*known, columns=name)


def means(settings: Groups) -> pd.DataFrame:
    """One row per setting and method: means over the finished runs with labels; NaN where unknown."""
    aggregates = {c.name: c.aggregate for c in _MEAN_COLUMNS if c.aggregate}
    entries = list(dict.fromkeys(entry for entry, _ in aggregates.values()))
    rows, scored = [], []
    for setting, methods in settings.items():
        for method, runs in methods.items():
            scored.append([run for run in runs if _is_scored(run)])
            for run in runs:
                row = run_row(run) if run in scored[-1] else {}
                rows.append(row | {"setting": setting, "method": method, "place": run.place})
    results = pd.DataFrame(rows, columns=["setting", "method", "place", *entries])
    results = results.astype(dict.fromkeys(entries, float))
    results["collapsed"] = results["collapsed"].where(results["adapts"] == 1)
    by_method = results.groupby(["setting", "method"], sort=False)
    table = by_method.agg(**aggregates).reset_index()
    table["runs_wanted"] = table["setting"].map(results.groupby("setting")["place"].nunique())
    for other in ("source", "bnadapt"):
        linked = [[(run, getattr(run, other)) for run in runs] for runs in scored]
        gaps = [_difference([p for p in same if _gain(*p) is not None]) for same in linked]
        for end in _PARTS[:2]:
            ends = [None if gap is None else getattr(gap, end) for gap in gaps]
            table[f"gain_over_{other}_{end}"] = pd.Series(ends, dtype=float)
    table["over"] = pd.Series(map(_varied, scored), dtype=object)
    protocols = [runs[0].protocol if runs else None for runs in scored]
    table["below_source"] = pd.Series(map(_below_source, scored), dtype=object)
    table["protocol"] = pd.Series(protocols, dtype=object)
    table["adapts"] = table["adapts"] == 1
    table["collapsed"] = table["collapsed"].where(table["compared"] > 0)
    whole = [name for name, (_, function) in aggregates.items() if function in ("sum", "min")]
    return table.astype(dict.fromkeys(whole, "Int64"))


def _is_scored(run: Run) -> bool:
    """Whether a run is finished and has labels."""
    return run.finished and run.begun and run.accuracy is not None


def _below_source(runs: Sequence[Run]) -> bool | None:
    """Whether runs are significantly below the source model (95 % interval over batches)."""
    others = [run for run in runs if run.adapts and run.source is not run]
    differences = [run.differences for run in others if run.differences is not None]
    return is_negative(gap(differences, max((run.lasting for run in others), default=1)))


def _varied(runs: Sequence[Run]) -> str | None:
    """What differs between runs of one method and setting; None of one run."""
    names = ("stream", "seed")
    varied = [f"{name}s" for name in names if len({getattr(run, name) for run in runs}) > 1]
    return " and ".join(varied) or None


def _difference(pairs: Sequence[tuple[Run, Run]]) -> Difference | None:
    """The accuracy of runs minus that of others on the same images; None of none.

    The 95 % interval is Student's over runs of several seeds; runs of one seed vary only in their data, so
    theirs is over batches (`collapse.gap`). It ends at the largest possible difference.
    """
    if len({run.seed for run, _ in pairs}) > 1:
        values = [{n: pair[k].accuracy or 0.0 for n, pair in enumerate(pairs)} for k in (0, 1)]
        difference = paired(*values)
    else:
        sizes = [min(len(run.rows), len(other.rows)) for run, other in pairs]
        batches = [
            run.column("accuracy")[:size] - other.column("accuracy")[:size]
            for size, (run, other) in zip(sizes, pairs, strict=True)
        ]
        difference = gap(batches, max((run.lasting for run, _ in pairs), default=1))
    if difference is None or difference.low is None or difference.high is None:
        return difference
    return difference._replace(low=max(difference.low, -1.0), high=min(difference.high, 1.0))


def records(table: pd.DataFrame) -> list[Row]:
    """The rows of `means` as JSON has them."""
    table = table.assign(protocol=table["protocol"].map(str, na_action="ignore"))
    return table.astype(object).where(table.notna(), None).to_dict("records")


def matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Means as text, with methods as rows and settings as columns (transposed for many settings).

    The average is over settings with a shift: without the images of `holdfast corruptions` called "clean".
    """
    settings, methods = table["setting"].unique(), table["method"].unique()
    texts = table.assign(text=list(map(_mean_text, records(table))))
    shown = texts.pivot(index="method", columns="setting", values="text")
    shown = shown.reindex(index=methods, columns=settings)
    shifted = table[table["setting"] != "clean"]
    if (size := shifted["setting"].nunique()) > 1:
        by_method = shifted.groupby("method", sort=False)
        shown["Average"] = pd.Series({name: _average(rows, size) for name, rows in by_method})
    shown = shown.fillna("-").rename_axis(index=None, columns=None)
    wide = len(settings) <= _WIDE
    return (shown if wide else shown.T).rename_axis("method" if wide else "setting").reset_index()


def _average(rows: pd.DataFrame, settings: int) -> str:
    """The mean of a method's means in all settings in percent; "-" unless all share one protocol."""
    known = len(rows) == settings and bool(rows["accuracy"].notna().all())
    if not known or not alike(rows["protocol"]):
        return "-"
    missing = (rows["runs"] < rows["runs_wanted"]).any()
    return points(rows["accuracy"].mean()) + (" (runs missing)" if missing else "")


def pairs(settings: Groups) -> pd.DataFrame:
    """One row per setting and pair of methods: the difference in accuracy, with its 95 % interval.

    Differences are paired by stream and seed (`_difference`).
    """
    rows = []
    for setting, methods in settings.items():
        scored = {
            name: {run.stream_id: run for run in runs if _is_scored(run)}
            for name, runs in methods.items()
        }
        for first, second in combinations(scored, 2):
            ours, theirs = scored[first], scored[second]
            common = [(run, theirs[name]) for name, run in ours.items() if name in theirs]
            if (difference := _difference(common)) is not None:
                rows.append((setting, first, second, *difference))
    columns = ["setting", "method", "other", "difference", *_PARTS]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[3:6], float))


def pairs_table(table: pd.DataFrame) -> pd.DataFrame:
    values = table[["difference", *_PARTS[:2]]].astype(object).where(table.notna(), None)
    texts = [_difference_text(*row) for row in values.itertuples(index=False)]
    shown = table[["setting", "method", "other"]].copy()
    shown["difference [95 %]"], shown["runs"] = texts, table["runs"].map(str)
    return shown
