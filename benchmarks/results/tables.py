"""Tables of runs: one row per run, or one row per method and setting; as data frames and as text.

A row is a mapping from names, which JSON and CSV have too, to values: accuracies in [0,1], None if unknown.
`run_row` makes the row of a run, `means` those of the runs of one method in one setting.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from ... import one_of
from .collapse import gap, is_negative
from .groups import Groups
from .run_protocol import alike
from .run_statistics import LEVEL, Difference, paired
from .runs import Run, collect
from .text_table import decimals, percent, points

WIDE = 6  # maximum number of settings as columns
BELOW = "↓"  # marks a mean below the source model's
ENDS = ("", "_low", "_high")  # of the names of a difference and of the ends of its interval
PARTS = ("low", "high", "runs")  # of a `Difference`, beside its mean
YES = {True: "yes", False: "no"}
Row = dict[str, Any]

# The properties of runs that are reported; add a property here to report it.
RESULTS = (
    *("override", "setting", "accuracy", "accuracy_last_eighth", "accuracy_per_image", "nll"),
    *("ece", "below_source", "collapsed", "collapse_step", "resets", "never_updated"),
    *("images_used", "not_finite", "not_finite_images", "images", "images_per_second"),
    *("finished", "adapts"),
)
NAMES = ("method", "override", "stream", "setting", "seed")


def load(*folders: str | Path) -> pd.DataFrame:
    """A data frame with one row per run with results below these folders.

    Its columns have the names of the entries in `holdfast report --json`.

    Raises:
        HoldfastError: if a folder does not exist.
    """
    return frame(collect(*map(Path, folders)))


def frame(runs: Iterable[Run]) -> pd.DataFrame:
    return pd.DataFrame(list(map(run_row, runs))).drop(columns="names", errors="ignore")


def run_row(run: Run) -> Row:
    """The results of one run, and what identifies it."""
    return {
        "stream": run.stream,
        "seed": run.seed,
        "method": run.label,
        **{name: getattr(run, name) for name in RESULTS},
        "gain_over_source": gain(run, run.source),
        "gain_over_bnadapt": gain(run, run.bnadapt),
        "time_in_sources": run.step_seconds / run.source.step_seconds if run.source else None,
        "started": run.provenance["started"],
        "stream_id": run.stream_id,
        "folder": str(run.folder),
        "names": {name: getattr(run, name) for name in NAMES},
        "protocol": str(run.protocol),
    }


def gain(run: Run, other: Run | None) -> float | None:
    """The accuracy of an adapting run minus that of another on the same images."""
    if not run.adapts or other is None or other is run:
        return None
    ours, theirs = run.accuracy, other.accuracy
    return None if ours is None or theirs is None else ours - theirs


# ---- one row per method and setting ----------------------------------------------------------------------

# The columns of `means` that are aggregated over runs, each from an entry of `run_row`.
MEANS = {
    "accuracy": ("accuracy", "mean"),
    "sd": ("accuracy", "std"),
    "runs": ("accuracy", "count"),
    "last_eighth": ("accuracy_last_eighth", "mean"),
    "nll": ("nll", "mean"),
    "ece": ("ece", "mean"),
    "collapsed": ("collapsed", "sum"),
    "compared": ("collapsed", "count"),  # number of runs with a source model on the same images
    "first_collapse_step": ("collapse_step", "min"),
    "gain_over_source": ("gain_over_source", "mean"),
    "gain_over_bnadapt": ("gain_over_bnadapt", "mean"),
    "time_in_sources": ("time_in_sources", "median"),
    "never_updated": ("never_updated", "sum"),
    "images_used": ("images_used", "mean"),
    "adapts": ("adapts", "max"),
}
COUNTS = ("collapsed", "first_collapse_step", "never_updated")  # whole numbers


def means(found: Groups) -> pd.DataFrame:
    """One row per setting and method: means over the finished runs with labels; NaN where unknown."""
    names = list(dict.fromkeys(name for name, _ in MEANS.values()))
    each, done = [], []
    for setting, methods in found.items():
        for method, runs in methods.items():
            done.append(scored := [run for run in runs if is_scored(run)])
            for run in runs:
                facts = run_row(run) if run in scored else {}
                each.append(facts | {"setting": setting, "method": method, "place": run.place})
    frame = pd.DataFrame(each, columns=["setting", "method", "place", *names])
    frame = frame.astype(dict.fromkeys(names, float))
    frame["collapsed"] = frame["collapsed"].where(frame["adapts"] == 1)
    by = frame.groupby(["setting", "method"], sort=False)
    table = by.agg(**MEANS).reset_index()
    table["runs_wanted"] = table["setting"].map(frame.groupby("setting")["place"].nunique())
    for name in ("gain_over_source", "gain_over_bnadapt"):
        error = by[name].sem().to_numpy()
        half = stdtrit(by[name].count().to_numpy() - 1, (1 + LEVEL) / 2) * error
        table[f"{name}_low"], table[f"{name}_high"] = table[name] - half, table[name] + half
    protocols = [runs[0].protocol if runs else None for runs in done]
    table["below_source"] = pd.Series(map(below_source, done), dtype=object)
    table["protocol"] = pd.Series(protocols, dtype=object)
    table["adapts"] = table["adapts"] == 1
    table["collapsed"] = table["collapsed"].where(table["compared"] > 0)
    return table.astype(dict.fromkeys(COUNTS, "Int64"))


def is_scored(run: Run) -> bool:
    """Whether a run is finished and has labels."""
    return run.finished and run.begun and run.accuracy is not None


def below_source(runs: Sequence[Run]) -> bool | None:
    """Whether runs are significantly below the source model (95 % interval over batches)."""
    others = [run for run in runs if run.adapts and run.source is not run]
    differences = [run.differences for run in others if run.differences is not None]
    found = gap(differences, max((run.lasting for run in others), default=1))
    return None if found is None else is_negative(found)


def records(table: pd.DataFrame) -> list[Row]:
    """The rows of `means` as JSON has them."""
    table = table.assign(protocol=table["protocol"].map(str, na_action="ignore"))
    return table.astype(object).where(table.notna(), None).to_dict("records")


def pairs(found: Groups) -> pd.DataFrame:
    """One row per setting and pair of methods: the difference in accuracy, with its 95 % interval.

    Differences are paired by stream and seed; of a single common run, by batch (`collapse.gap`).
    """
    rows = []
    for setting, methods in found.items():
        scored = {
            name: {run.stream_id: run for run in runs if is_scored(run)}
            for name, runs in methods.items()
        }
        for one, other in combinations(scored, 2):
            names = {"setting": setting, "method": one, "other": other}
            if (difference := compared(scored[one], scored[other])) is not None:
                rows.append(names | dict(zip(("difference", *PARTS), difference, strict=True)))
    columns = ["setting", "method", "other", "difference", *PARTS]
    return pd.DataFrame(rows, columns=columns).astype({name: float for name in columns[3:6]})


def compared(ours: Mapping[str, Run], theirs: Mapping[str, Run]) -> Difference | None:
    """The accuracy of runs minus that of others by stream; None if they have no stream in common."""
    common = [name for name in ours if name in theirs]
    if len(common) != 1:
        values = ({name: run.accuracy or 0.0 for name, run in o.items()} for o in (ours, theirs))
        return paired(*values)
    one, other = ours[common[0]], theirs[common[0]]
    size = min(len(one.rows), len(other.rows))
    batches = one.column("accuracy")[:size] - other.column("accuracy")[:size]
    return gap([batches], one.lasting)


# ---- as text -----------------------------------------------------------------------------------------


def mean_text(row: Row) -> str:
    """Mean ± sd in percent, the number of runs if some are missing, and BELOW if below the source model."""
    text = points(row["accuracy"], row["sd"])
    if row["sd"] is not None:
        text += f" ± {points(row['sd'], row['sd'])}"
    if row["below_source"]:
        text += f" {BELOW}"
    missing = row["runs"] < row["runs_wanted"]
    return f"{text} ({row['runs']} of {row['runs_wanted']})" if missing else text


def collapse_text(row: Row) -> str:
    """The number of collapsed runs, and the step of the first collapse; "?" without a source model."""
    if row["collapsed"] is None:
        return "-" if row["runs"] and not row["adapts"] else "?"
    text, first = f"{row['collapsed']} of {row['compared']}", row["first_collapse_step"]
    return text if first is None else f"{text}, step {first:,}"


def difference_text(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return "-"
    digits = decimals(None if low is None or high is None else (high - low) / 2)
    text, *ends = (f"{100 * v:+.{digits}f}" for v in (mean, low, high) if v is not None)
    return f"{text} [{', '.join(ends)}]" if ends else text


def gain_text(row: Row, name: str) -> str:
    return difference_text(*(row[f"{name}{end}"] for end in ENDS))


# The columns of the table of means, by the names of their values: the head, and the text of a row.
COLUMNS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "setting": ("setting", itemgetter("setting")),
    "method": ("method", itemgetter("method")),
    "accuracy": ("accuracy", mean_text),
    "last_eighth": ("last eighth", lambda row: points(row["last_eighth"])),
    "nll": ("NLL", lambda row: "-" if row["nll"] is None else f"{row['nll']:.2f}"),
    "ece": ("ECE", lambda row: points(row["ece"])),
    "collapsed": ("collapsed", collapse_text),
    "gain_over_source": ("over Source [95 %]", partial(gain_text, name="gain_over_source")),
    "gain_over_bnadapt": ("over BNAdapt [95 %]", partial(gain_text, name="gain_over_bnadapt")),
    "time_in_sources": (
        "time × Source",
        lambda row: "-" if row["time_in_sources"] is None else f"{row['time_in_sources']:.2f}",
    ),
    "never_updated": ("never updated", lambda row: str(row["never_updated"] or "-")),
    "images_used": ("images used", lambda row: points(row["images_used"])),
}
# The columns of a table of runs, by the names of their entries in a row.
TEXTS: dict[str, Callable[[Any], str]] = {
    **{name: str for name in ("stream", "seed", "method")},
    **{name: percent for name in ("accuracy", "accuracy_last_eighth")},
    **{"nll": "{:.2f}".format, "ece": percent, "images_used": percent},
    **{name: YES.__getitem__ for name in ("below_source", "collapsed")},
    **{name: YES.__getitem__ for name in ("never_updated", "finished")},
    **{name: str for name in ("resets", "not_finite", "not_finite_images")},
    "images_per_second": "{:,.0f}".format,
}
# Columns that are left out where they have no value, unless they are asked for.
RARE = ["nll", "ece", "gain_over_source", "gain_over_bnadapt", "time_in_sources"]
RARE += ["never_updated", "images_used", "not_finite", "not_finite_images"]


def runs_table(runs: Sequence[Run], columns: Sequence[str] = ()) -> pd.DataFrame:
    """One row per run as text, with these columns (default: all but empty ones)."""
    rows = list(map(run_row, runs))
    known(columns, TEXTS)
    table = pd.DataFrame(
        {
            name: ["-" if row[name] is None else TEXTS[name](row[name]) for row in rows]
            for name in columns or TEXTS
        }
    )
    table = table if columns else without_empty(table)
    return table.rename(columns=lambda name: name.replace("_", " "))


def details(table: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """One row per method and setting as text, with these columns (default: all but empty ones).

    By default the column of a single setting is omitted.
    """
    known(columns, COLUMNS)
    rows = records(table)
    shown = pd.DataFrame({name: list(map(COLUMNS[name][1], rows)) for name in columns or COLUMNS})
    if not columns:
        shown = without_empty(shown)
        if table["setting"].nunique() == 1:
            shown = shown.drop(columns="setting")
    return shown.rename(columns={name: head for name, (head, _) in COLUMNS.items()})


def known(columns: Iterable[str], names: Iterable[str]) -> None:
    """Raise HoldfastError if a column is none of these."""
    for column in columns:
        one_of(*names, columns=column)


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """The table without those RARE columns that have no value."""
    empty = [name for name in RARE if name in table and table[name].isin(["-", "no", "0"]).all()]
    return table.drop(columns=empty)


def pairs_table(table: pd.DataFrame) -> pd.DataFrame:
    values = table[["difference", *PARTS[:2]]].astype(object).where(table.notna(), None)
    texts = [difference_text(*row) for row in values.itertuples(index=False)]
    named = table[["setting", "method", "other"]]
    return named.assign(**{"difference [95 %]": texts, "runs": table["runs"].map(str)})


def matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Means as text, with methods as rows and settings as columns (transposed for many settings).

    The average is over settings with a shift: without the images of `holdfast corruptions` called "clean".
    """
    settings, methods = table["setting"].unique(), table["method"].unique()
    texts = table.assign(text=list(map(mean_text, records(table))))
    shown = texts.pivot(index="method", columns="setting", values="text")
    shown = shown.reindex(index=methods, columns=settings)
    shifted = table[table["setting"] != "clean"]
    if (size := shifted["setting"].nunique()) > 1:
        by = shifted.groupby("method", sort=False)
        shown["Average"] = pd.Series({name: average_text(same, size) for name, same in by})
    shown = shown.fillna("-").rename_axis(index=None, columns=None)
    wide = len(settings) <= WIDE
    return (shown if wide else shown.T).rename_axis("method" if wide else "setting").reset_index()


def average_text(same: pd.DataFrame, settings: int) -> str:
    """The mean of a method's means in all settings in percent; "-" unless all share one protocol."""
    known = len(same) == settings and bool(same["accuracy"].notna().all())
    if not known or not alike(same["protocol"]):
        return "-"
    missing = (same["runs"] < same["runs_wanted"]).any()
    return points(same["accuracy"].mean()) + (" (runs missing)" if missing else "")
