"""`holdfast report`: table and figure of the runs in a folder, finished or not."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ... import printable
from ...files import reason
from .runs import Run, find, with_results
from .text import aligned, percent


class Column(NamedTuple):
    """One fact of a run: under its name in JSON, and in the table if it has a header.

    One that is `rare` is in the table only if it is true of a run there.
    """

    name: str
    value: Callable[[Run], Any]
    header: str = ""
    text: Callable[[Any], str] = str
    rare: bool = False


def verdict(collapsed: bool | None) -> str:
    """Whether it collapsed, in a word."""
    return {True: "yes", False: "no", None: "?"}[collapsed]


# To report one more thing, add it here.
COLUMNS = (
    Column("stream", lambda run: run.stream, "stream"),
    Column("seed", lambda run: run.seed, "seed"),
    Column("method", lambda run: run.label, "method"),
    Column("accuracy", lambda run: run.accuracy, "accuracy", percent),
    Column("accuracy_last_eighth", lambda run: run.accuracy_last_eighth, "last eighth", percent),
    Column("collapsed", lambda run: run.collapsed, "collapsed", verdict),
    Column("resets", lambda run: run.resets, "resets"),
    Column("not_finite", lambda run: run.not_finite, "not finite", rare=True),
    Column("images_per_second", lambda run: run.images_per_second, "images/s", "{:,.0f}".format),
    Column("accuracy_per_image", lambda run: run.accuracy_per_image),
    Column("images", lambda run: run.images),
    Column("finished", lambda run: run.finished),
    Column("adapts", lambda run: run.adapts),
    Column("started", lambda run: run.started),
    Column("stream_id", lambda run: run.stream_id),
    Column("folder", lambda run: str(run.folder)),
    Column("names", lambda run: names(run)),
)


def names(run: Run) -> dict[str, Any]:
    """The names apart, for programs: "method" above is method and override in one."""
    return {key: getattr(run, key) for key in ("method", "override", "stream", "setting", "seed")}


def table(runs: list[Run]) -> str:
    """The results as aligned text."""
    headed = [column for column in COLUMNS if column.header]
    shown = [column for column in headed if not column.rare or any(map(column.value, runs))]
    lines = [[column.header for column in shown]]
    for run in runs:
        texts = {column.name: column.text(column.value(run)) for column in shown}
        if not run.finished:
            texts["method"] += " (unfinished)"
        if not run.adapts:
            texts["collapsed"] = "-"
        lines.append(list(texts.values()))
    return aligned(lines)


def failure(run: Run) -> dict[str, Any]:
    """A run that failed, with its error in one line."""
    known = {"method": run.label or None, "stream": run.stream or None, "seed": run.seed}
    return {**known, "folder": str(run.folder), "error": run.state.note}


def publish(folder: Path) -> None:
    """Print the table and what failed, draw the figure, and say where things are."""
    everything = find(folder)
    runs = with_results(everything)
    if runs:
        print(table(runs))
    for run in everything:
        if run.state.name == "failed":
            named = f"{run.stream}, seed {run.seed}, {run.label}: " if run.method else ""
            print(printable(f"failed: {named}{run.state.note}"))
    if not runs:
        print(f"{folder} holds no runs with results yet")
        return
    from .figure import draw

    try:
        print(f"figure: {draw(runs, folder / 'accuracy.png')}")
    except OSError as error:
        print(f"no figure: {folder} cannot be written ({reason(error)})")


def as_json(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every column of every run with results, and what failed."""
    everything = find(folder)
    runs = with_results(everything)
    return {
        "runs": [{column.name: column.value(run) for column in COLUMNS} for run in runs],
        "failed": [failure(run) for run in everything if run.state.name == "failed"],
    }


def main(argv: list[str]) -> int:
    """Report on a folder as text and figure, or as JSON."""
    parser = argparse.ArgumentParser(prog="holdfast report", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a run or of a suite")
    parser.add_argument("--json", action="store_true", help="print JSON, draw nothing")
    args = parser.parse_args(argv)
    if args.json:
        print(json.dumps(as_json(args.folder), indent=1))
    else:
        publish(args.folder)
    return 0
