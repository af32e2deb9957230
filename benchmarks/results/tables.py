"""Tables of runs: one row per run, or one row per method and setting; as data frames and as text.

A row is a mapping from names, which JSON and CSV have too, to values: accuracies in [0,1], None if unknown.
`run_row` makes the row of a run, `Group.row` that of the runs of one method in one setting.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .groups import ENDS, Group, average
from .runs import Run, collect, grouped
from .text_table import percent, points

WIDE = 6  # maximum number of settings as columns
BELOW = "↓"  # marks a mean below the source model's
YES = {True: "yes", False: "no"}
Row = dict[str, Any]

# The properties of runs that are reported; add a property here to report it.
RESULTS = (
    *("override", "setting", "accuracy", "accuracy_last_eighth", "accuracy_per_image"),
    *("below_source", "collapsed", "collapse_step", "resets", "never_updated", "images_used"),
    *("not_finite", "not_finite_images", "negative_flips", "images", "images_per_second"),
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
    """The rows of these runs."""
    return pd.DataFrame(list(map(run_row, runs))).drop(columns="names", errors="ignore")


def run_row(run: Run) -> Row:
    """The results of one run, and what identifies it."""
    return {
        "stream": run.stream,
        "seed": run.seed,
        "method": run.label,
        **{name: getattr(run, name) for name in RESULTS},
        "started": run.provenance["started"],
        "stream_id": run.stream_id,
        "folder": str(run.folder),
        "names": {name: getattr(run, name) for name in NAMES},
        "protocol": str(run.protocol),
    }


# ---- as text -----------------------------------------------------------------------------------------

# The columns of a table of runs, by the names of their entries in a row.
COLUMNS: dict[str, Callable[[Any], str]] = {
    **{name: str for name in ("stream", "seed", "method")},
    **{name: percent for name in ("accuracy", "accuracy_last_eighth", "images_used")},
    **{
        name: YES.__getitem__ for name in ("below_source", "collapsed", "never_updated", "finished")
    },
    **{name: str for name in ("resets", "not_finite", "not_finite_images")},
    "images_per_second": "{:,.0f}".format,
}
RARE = {"never updated", "images used", "not finite", "not finite images", "negative flips"}
RARE |= {"over Source [95 %]", "over BNAdapt [95 %]", "time × Source", "adapts"}


def runs_table(runs: Sequence[Run]) -> pd.DataFrame:
    """One row per run as text."""
    rows = list(map(run_row, runs))
    texts = {
        name.replace("_", " "): ["-" if row[name] is None else text(row[name]) for row in rows]
        for name, text in COLUMNS.items()
    }
    return without_empty(pd.DataFrame(texts))


def details(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per method and setting as text; the column of a single setting is omitted."""
    rows = []
    for row in (group.row for group in groups):
        adapting, time = row["adapting_share"], row["time_in_sources"]
        texts = {
            "setting": row["setting"],
            "method": row["method"],
            "accuracy": mean_text(row),
            "worst run": points(row["worst"]),
            "last eighth": points(row["last_eighth"]),
            "below source": YES.get(row["below_source"], "-"),
            "collapsed": collapse_text(row),
            "over Source [95 %]": gain_text(row, "gain_over_source"),
            "over BNAdapt [95 %]": gain_text(row, "gain_over_bnadapt"),
            "negative flips": points(row["negative_flips"]),
            "time × Source": "-" if time is None else f"{time:.2f}",
            "never updated": str(row["never_updated"] or "-"),
            "images used": points(row["images_used"]),
            "adapts": "-" if adapting is None else f"{adapting:.2%}",
        }
        rows.append(texts)
    table = without_empty(pd.DataFrame(rows))
    return table if table["setting"].nunique() > 1 else table.drop(columns="setting")


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """The table without those RARE columns that have no value."""
    empty = [name for name in RARE & set(table) if table[name].isin(["-", "no", "0"]).all()]
    return table.drop(columns=empty)


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
    """The number of collapsed runs, and the step of the first collapse; "?" without a source model."""
    if row["collapsed"] is None:
        return "-" if row["runs"] and not row["adapts"] else "?"
    text, first = f"{row['collapsed']} of {row['compared']}", row["first_collapse_step"]
    return text if first is None else f"{text}, step {first:,}"


def gain_text(row: Row, name: str) -> str:
    """A difference in points with its interval."""
    mean, low, high = (row[f"{name}{end}"] for end in ENDS)
    text = "-" if mean is None else f"{100 * mean:+.1f}"
    return text if low is None else f"{text} [{100 * low:+.1f}, {100 * high:+.1f}]"


def matrix(groups: Sequence[Group]) -> pd.DataFrame:
    """Means as text, with methods as rows and settings as columns (transposed for many settings).

    A method without all settings has no average.
    """
    ordered = sorted(groups, key=lambda group: group.adapts or not group.runs)
    methods = grouped(ordered, lambda group: group.label)
    cells = {
        label: {group.setting: mean_text(group.row) for group in same}
        for label, same in methods.items()
    }
    settings = list(dict.fromkeys(group.setting for group in groups))
    table = pd.DataFrame(cells, index=settings).fillna("-").T
    if len(settings) > 1:
        table["Average"] = [average_text(same, len(settings)) for same in methods.values()]
    wide = len(settings) <= WIDE
    return (table if wide else table.T).rename_axis("method" if wide else "setting").reset_index()


def average_text(groups: Sequence[Group], settings: int) -> str:
    """The mean over all settings in percent."""
    mean = average(groups) if len(groups) == settings else None
    missing = any(len(group.runs) < group.wanted for group in groups)
    return points(mean) + (" (runs missing)" if missing and mean is not None else "")
