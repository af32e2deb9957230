"""The columns of a report on single runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from .runs import Run
from .text_table import Lines, percent


class Column(NamedTuple):
    """One property of a run, in JSON by its name, and in the table if it has a header.

    A `rare` column is in the table only if it is true for one of its runs.
    """

    name: str
    value: Callable[[Run], Any]
    header: str = ""
    text: Callable[[Any], str] = str
    rare: bool = False


def verdict(known: bool | None) -> str:
    """A truth value as a word."""
    return {True: "yes", False: "no", None: "?"}[known]


# Add a column here to report another property of runs.
COLUMNS = (
    Column("stream", lambda run: run.stream, "stream"),
    Column("seed", lambda run: run.seed, "seed"),
    Column("method", lambda run: run.label, "method"),
    Column("accuracy", lambda run: run.accuracy, "accuracy", percent),
    Column("accuracy_last_eighth", lambda run: run.accuracy_last_eighth, "last eighth", percent),
    Column("below_source", lambda run: run.below_source, "below source", verdict),
    Column("collapsed", lambda run: run.collapsed, "collapsed", verdict),
    Column("resets", lambda run: run.resets, "resets"),
    Column("never_updated", lambda run: run.never_updated, "never updated", verdict, rare=True),
    Column("images_used", lambda run: run.images_used, "images used", percent, rare=True),
    Column("not_finite", lambda run: run.not_finite, "not finite", rare=True),
    Column("not_finite_images", lambda run: run.not_finite_images, "bad images", rare=True),
    Column("images_per_second", lambda run: run.images_per_second, "images/s", "{:,.0f}".format),
    Column("accuracy_per_image", lambda run: run.accuracy_per_image),
    Column("collapse_step", lambda run: run.collapse_step),
    Column("negative_flips", lambda run: run.negative_flips),
    Column("images", lambda run: run.images),
    Column("finished", lambda run: run.finished),
    Column("adapts", lambda run: run.adapts),
    Column("started", lambda run: run.provenance["started"]),
    Column("stream_id", lambda run: run.stream_id),
    Column("folder", lambda run: str(run.folder)),
    Column("names", lambda run: names(run)),
    Column("protocol", lambda run: str(run.protocol)),
)


def names(run: Run) -> dict[str, Any]:
    """Method and override as separate columns of JSON, as "method" above combines them."""
    return {key: getattr(run, key) for key in ("method", "override", "stream", "setting", "seed")}


def facts(run: Run) -> dict[str, Any]:
    """All columns of a run for JSON."""
    return {column.name: column.value(run) for column in COLUMNS}


def table(runs: list[Run]) -> Lines:
    """One line per run."""
    headed = [column for column in COLUMNS if column.header]
    shown = [column for column in headed if not column.rare or any(map(column.value, runs))]
    lines = [[column.header for column in shown]]
    for run in runs:
        texts = {column.name: column.text(column.value(run)) for column in shown}
        if not run.finished:
            texts["method"] += " (unfinished)"
        if not run.adapts:
            texts |= {"below_source": "-", "collapsed": "-"}
        lines.append(list(texts.values()))
    return lines
