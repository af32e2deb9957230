"""The page of `holdfast report FOLDER --html FILE`: the tables of the report, and charts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import report, summary_tables
from ..aggregate import Group, groups
from ..runs import Run, with_results
from ..text_table import Lines
from . import charts, html_file, origins

Published = Mapping[tuple[str, str], str]  # published number by setting and method


def write(title: str, everything: list[Run], file: Path, published: Published) -> Path:
    """Write the page of these runs; `published` are the papers' numbers for the same settings."""
    runs = with_results(everything)
    found = groups(everything)
    data = report.as_json(everything) | charts.data(runs) | {"missing": report.missing(everything)}
    data["published"] = [[*key, text] for key, text in published.items()]
    several = len({group.setting for group in found}) > 1
    return html_file.write(
        file,
        "report.html",
        data,
        title=title,
        provenance=origins.header(runs),
        commands=origins.commands(runs),
        streams=origins.streams(runs),
        means=summary_tables.matrix(found) if several else [],
        details=details(found, published) if found else [],
        note="; ".join(filter(None, (summary_tables.protocols(found), report.NOTE))),
        compared=bool(published),
        missing=[*data["missing"], *report.remarks(runs)],
        count=counted(everything),
    )


def details(found: list[Group], published: Published) -> Lines:
    """The table of the report, with a column of published numbers if there are any."""
    lines = summary_tables.details(found)
    if not published:
        return lines
    beside = [published.get((group.setting, group.label), "-") for group in found]
    columns = ["published", *beside]
    return [[*line, column] for line, column in zip(lines, columns, strict=True)]


def counted(everything: list[Run]) -> str:
    """The number of runs, and how many of them are unfinished."""
    states: dict[str, int] = {}
    for run in everything:
        states[run.state.name] = states.get(run.state.name, 0) + 1
    words: list[Any] = [f"{number} {name}" for name, number in sorted(states.items())]
    return f"{len(everything)} runs: {', '.join(words)}" if words else "no runs"
