"""Tables of runs: one row per run, or one row per method and setting; as data frames and as text.

A row is a mapping from names, which JSON and CSV have too, to values: accuracies in [0,1], None if unknown.
`run_row` makes the row of a run, `Group.row` that of a group.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .groups import Group, average
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


def run_row(run: Run) -> Row:
    """The results of one run, and what identifies it. Add a property of runs here to report it."""
    return {
        "stream": run.stream,
        "seed": run.seed,
        "method": run.label,
        "override": run.override,
        "setting": run.setting,
        "accuracy": run.accuracy,
        "accuracy_last_eighth": run.accuracy_last_eighth,
        "accuracy_per_image": run.accuracy_per_image,
        "below_source": run.below_source,
        "collapsed": run.collapsed,
        "collapse_step": run.collapse_step,
        "resets": run.resets,
        "never_updated": run.never_updated,
        "images_used": run.images_used,
        "not_finite": run.not_finite,
        "not_finite_images": run.not_finite_images,
        "negative_flips": run.negative_flips,
        "images": run.images,
        "images_per_second": run.images_per_second,
        "finished": run.finished,
        "adapts": run.adapts,
        "started": run.provenance["started"],
        "stream_id": run.stream_id,
        "folder": str(run.folder),
        "names": {n: getattr(run, n) for n in ("method", "override", "stream", "setting", "seed")},
        "protocol": str(run.protocol),
    }


# ---- as text -----------------------------------------------------------------------------------------

RARE = {"never updated", "images used", "not finite", "bad images", "negative flips", "adapts"}
RARE |= {"over Source [95 %]", "over BNAdapt [95 %]", "time × Source"}


def run_texts(row: Row) -> dict[str, str]:
    """A row of a run as text, by the heads of the columns."""
    compared = {True: "yes", False: "no", None: "?"} if row["adapts"] else {}
    used = row["images_used"]
    return {
        "stream": row["stream"],
        "seed": str(row["seed"]),
        "method": row["method"] + ("" if row["finished"] else " (unfinished)"),
        "accuracy": percent(row["accuracy"]),
        "last eighth": percent(row["accuracy_last_eighth"]),
        "below source": compared.get(row["below_source"], "-"),
        "collapsed": compared.get(row["collapsed"], "-"),
        "resets": str(row["resets"]),
        "never updated": "yes" if row["never_updated"] else "-",
        "images used": percent(used) if used else "-",
        "not finite": str(row["not_finite"] or "-"),
        "bad images": str(row["not_finite_images"] or "-"),
        "images/s": f"{row['images_per_second']:,.0f}",
    }


def group_texts(row: Row) -> dict[str, str]:
    """A row of a group as text, by the heads of the columns."""
    adapting, time = row["adapting_share"], row["time_in_sources"]
    return {
        "setting": row["setting"],
        "method": row["method"],
        "accuracy": mean_text(row),
        "worst run": points(row["worst"]),
        "last eighth": points(row["last_eighth"]),
        "below source": {True: "yes", False: "no", None: "-"}[row["below_source"]],
        "collapsed": collapse_text(row),
        "over Source [95 %]": gain_text(row, "gain_over_source"),
        "over BNAdapt [95 %]": gain_text(row, "gain_over_bnadapt"),
        "negative flips": points(row["negative_flips"]),
        "time × Source": "-" if time is None else f"{time:.2f}",
        "never updated": str(row["never_updated"] or "-"),
        "images used": points(row["images_used"]),
        "adapts": "-" if adapting is None else f"{adapting:.2%}",
    }


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


def gain_text(row: Row, name: str) -> str:
    """A difference in points with its interval."""
    mean, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    text = "-" if mean is None else f"{100 * mean:+.1f}"
    return text if low is None else f"{text} [{100 * low:+.1f}, {100 * high:+.1f}]"


def runs_table(runs: list[Run]) -> pd.DataFrame:
    """One row per run as text."""
    return without_empty(pd.DataFrame([run_texts(run_row(run)) for run in runs]))


def details(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per method and setting as text; the column of a single setting is omitted."""
    table = without_empty(pd.DataFrame([group_texts(group.row) for group in groups]))
    return table if table["setting"].nunique() > 1 else table.drop(columns="setting")


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """The table without those RARE columns that have no value."""
    return table.drop(columns=[name for name in RARE & set(table) if (table[name] == "-").all()])


def matrix(groups: Sequence[Group]) -> pd.DataFrame:
    """Means as text, with methods as rows and settings as columns (transposed for many settings).

    A method without all settings has no average.
    """
    cells: dict[str, dict[str, str]] = {}
    for group in groups:
        cells.setdefault(group.setting, {})[group.label] = mean_text(group.row)
    ordered = sorted(groups, key=lambda group: group.adapts or not group.runs)
    methods = grouped(ordered, lambda group: group.label)
    table = pd.DataFrame(cells).reindex(list(methods)).fillna("-")
    if len(cells) > 1:
        table["Average"] = [average_text(same, len(cells)) for same in methods.values()]
    wide = len(cells) <= WIDE
    return (table if wide else table.T).rename_axis("method" if wide else "setting").reset_index()


def average_text(groups: Sequence[Group], settings: int) -> str:
    """The mean over all settings in percent."""
    mean = average(groups) if len(groups) == settings else None
    missing = any(len(group.runs) < group.wanted for group in groups)
    return points(mean) + (" (runs missing)" if missing and mean is not None else "")
