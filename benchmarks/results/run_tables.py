"""Tables of runs: one row per run, or one row per method and setting; as data frames and as text.

A row is a mapping from names, which JSON and CSV have too, to values: accuracies in [0,1], None if unknown.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .collapse import gap
from .groups import Group, average
from .run_statistics import deviation, paired
from .runs import Run, collect, grouped
from .text_table import percent, points

WIDE = 6  # maximum number of settings as columns
BELOW = "↓"  # marks a mean below the source model's
Row = dict[str, Any]


def load(*folders: str | Path) -> pd.DataFrame:
    """A data frame with one row per run with results below these folders.

    Its columns have the names of the entries in `holdfast report --json`.

    Raises:
        HoldfastError: if a folder does not exist.
    """
    return frame(collect(*map(Path, folders)))


def frame(runs: list[Run]) -> pd.DataFrame:
    """The rows of these runs."""
    return pd.DataFrame(list(map(run_row, runs))).drop(columns="names", errors="ignore")


# ---- one row per run ---------------------------------------------------------------------------------

# Add a property of runs here to report it.
PROPERTIES = (
    *("accuracy", "accuracy_last_eighth", "below_source", "collapsed", "resets", "never_updated"),
    *("images_used", "not_finite", "not_finite_images", "images_per_second", "accuracy_per_image"),
    *("collapse_step", "negative_flips", "images", "finished", "adapts"),
)


def run_row(run: Run) -> Row:
    """The results of one run, and what identifies it."""
    return {
        "stream": run.stream,
        "seed": run.seed,
        "method": run.label,
        "override": run.override,
        "setting": run.setting,
        **{name: getattr(run, name) for name in PROPERTIES},
        "started": run.provenance["started"],
        "stream_id": run.stream_id,
        "folder": str(run.folder),
        "names": {n: getattr(run, n) for n in ("method", "override", "stream", "setting", "seed")},
        "protocol": str(run.protocol),
    }


# ---- one row per method and setting ------------------------------------------------------------------


def group_row(group: Group) -> Row:
    """The means over the runs of one method in one setting, and what follows from several runs."""
    runs = group.runs
    accuracies = group.accuracies()
    collapsed = [r.collapsed for r in runs if r.collapsed is not None] if group.adapts else []
    steps = [run.collapse_step for run in runs if run.collapse_step is not None]
    times = [run.step_seconds / run.source.step_seconds for run in runs if run.source]
    return {
        "setting": group.setting,
        "method": group.label,
        "accuracy": group.mean("accuracy"),
        "sd": deviation(accuracies),
        "runs": len(runs),
        "runs_wanted": group.wanted,
        "worst": min(accuracies.values(), default=None),
        "last_eighth": group.mean("accuracy_last_eighth"),
        "below_source": below_source(group),
        "collapsed": sum(collapsed) if collapsed else None,
        "collapse_rate": sum(collapsed) / len(collapsed) if collapsed else None,
        "first_collapse_step": min(steps, default=None),
        **gain_row(group, "source"),
        **gain_row(group, "bnadapt"),
        "negative_flips": group.mean("negative_flips"),
        "time_in_sources": float(np.median(times)) if times else None,
        "never_updated": sum(run.never_updated for run in runs),
        "images_used": group.mean("images_used"),
        "adapting_share": group.mean("adapting_share"),
        "protocol": str(runs[0].protocol) if runs else None,
        "adapts": group.adapts,
        "compared": len(collapsed),  # number of runs with a source model on the same images
    }


def below_source(group: Group) -> bool | None:
    """Whether the runs are significantly below the source model (95 % interval over batches)."""
    others = [run for run in group.runs if run.source is not run]
    differences = [run.differences for run in others if run.differences is not None]
    found = gap(differences, max((run.lasting for run in others), default=1))
    return found.below if found is not None and group.adapts else None


def gain_row(group: Group, reference: str) -> Row:
    """The mean gain over the runs of another method (`source` or `bnadapt`), and its 95 % interval."""
    gain = None
    if group.adapts and not any(getattr(run, reference) is run for run in group.runs):
        gain = paired(group.accuracies(), group.accuracies(reference))
    name = f"gain_over_{reference}"
    mean, low, high = (None, None, None) if gain is None else gain[:3]
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


# ---- as text -----------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a printed table. A `rare` one is left out where it is "-" in every row."""

    header: str
    text: Callable[[Row], str]
    rare: bool = False


def value(header: str, name: str, text: Callable[[Any], str] = str, rare: bool = False) -> Column:
    """The column of one entry; "-" if it is unknown."""
    return Column(header, lambda row: "-" if row[name] is None else text(row[name]), rare)


def count(header: str, name: str) -> Column:
    """The column of a number, or of a truth value, that is rarely above 0."""
    return Column(header, lambda row: str(row[name] + 0 or "-"), rare=True)


def yes_no(known: bool) -> str:
    return "yes" if known else "no"


def comparison(header: str, name: str) -> Column:
    """The column of a comparison with the source model: "?" if unknown, "-" for a frozen model."""
    words = {True: "yes", False: "no", None: "?"}
    return Column(header, lambda row: words[row[name]] if row["adapts"] else "-")


def mean_text(row: Row) -> str:
    """Mean ± sd in percent, the number of runs if some are missing, and BELOW if below the source model."""
    text = points(row["accuracy"])
    if row["sd"] is not None:
        text += f" ± {points(row['sd'])}"
    if row["below_source"]:
        text += f" {BELOW}"
    missing = row["runs"] < row["runs_wanted"]
    return f"{text} ({row['runs']} of {row['runs_wanted']})" if missing else text


def collapse_text(row: Row) -> str:
    """The number of collapsed runs, and the step of the first collapse."""
    if row["collapsed"] is None:
        return "-" if row["runs"] and not row["adapts"] else "?"
    text, first = f"{row['collapsed']} of {row['compared']}", row["first_collapse_step"]
    return text if first is None else f"{text}, step {first:,}"


def gain(header: str, name: str) -> Column:
    """The column of a difference in points with its interval."""

    def text(row: Row) -> str:
        if (mean := row[name]) is None:
            return "-"
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        interval = "" if low is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
        return f"{100 * mean:+.1f}{interval}"

    return Column(header, text, rare=True)


def run_name(row: Row) -> str:
    return row["method"] if row["finished"] else f"{row['method']} (unfinished)"


OF_RUNS = (
    value("stream", "stream"),
    value("seed", "seed"),
    Column("method", run_name),
    value("accuracy", "accuracy", percent),
    value("last eighth", "accuracy_last_eighth", percent),
    comparison("below source", "below_source"),
    comparison("collapsed", "collapsed"),
    value("resets", "resets"),
    count("never updated", "never_updated"),
    value("images used", "images_used", percent, rare=True),
    count("not finite", "not_finite"),
    count("bad images", "not_finite_images"),
    value("images/s", "images_per_second", "{:,.0f}".format),
)
OF_GROUPS = (
    value("setting", "setting"),
    value("method", "method"),
    Column("accuracy", mean_text),
    value("worst run", "worst", points),
    value("last eighth", "last_eighth", points),
    value("below source", "below_source", yes_no),
    Column("collapsed", collapse_text),
    gain("over Source [95 %]", "gain_over_source"),
    gain("over BNAdapt [95 %]", "gain_over_bnadapt"),
    value("negative flips", "negative_flips", points, rare=True),
    value("time × Source", "time_in_sources", "{:.2f}".format, rare=True),
    count("never updated", "never_updated"),
    value("images used", "images_used", points, rare=True),
    value("adapts", "adapting_share", "{:.2%}".format, rare=True),
)


def printed(rows: Sequence[Row], columns: Sequence[Column]) -> pd.DataFrame:
    """The rows as text, with those columns that are not rare or known for a row."""
    cells = {column.header: [column.text(row) for row in rows] for column in columns}
    rare = {column.header for column in columns if column.rare}
    return pd.DataFrame({h: c for h, c in cells.items() if h not in rare or set(c) - {"-"}})


def matrix(groups: Sequence[Group]) -> pd.DataFrame:
    """Means as text, with methods as rows and settings as columns (transposed for many settings).

    The column of averages is empty for a method without all settings.
    """
    settings = list(dict.fromkeys(group.setting for group in groups))
    found: dict[str, dict[str, str]] = {}
    ordered = sorted(groups, key=lambda group: group.adapts or not group.runs)
    for label, same in grouped(ordered, lambda group: group.label).items():
        cells = {group.setting: mean_text(group_row(group)) for group in same}
        found[label] = {setting: cells.get(setting, "-") for setting in settings}
        if len(settings) > 1:
            marked = "" if all(group.complete for group in same) else " (runs missing)"
            mean = average(same) if len(same) == len(settings) else None
            found[label]["Average"] = "-" if mean is None else points(mean) + marked
    table = pd.DataFrame(found)
    wide = len(settings) <= WIDE
    return (table.T if wide else table).rename_axis("method" if wide else "setting").reset_index()
