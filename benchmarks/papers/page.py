"""An experiment's results as text: our table, the published one next to or below it, and verdicts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..results.run_statistics import Values, deviation
from ..results.text_table import Lines, first_of, formatted
from . import published
from .experiment import Experiment
from .table import AVERAGE, Table, summaries, written
from .verdicts import GROUPS, Verdict, tally

NO_CLAIM = "The paper draws no conclusion here that runs could decide."
APART = "These runs are not the paper's:"
NOT_RECORDED = "not recorded"
FEW = 12  # maximum number of printed columns of a table along an axis


def number(values: Values[str], usual: int | None) -> str:
    """Mean ± sd over runs, with their number if it is not the usual one."""
    if not values:
        return "-"
    spread = deviation(values)
    text = f"{np.mean(list(values.values())):.2f}" + ("" if spread is None else f" ± {spread:.2f}")
    return text if usual in (None, len(values)) else f"{text} (n={len(values)})"


def lines(table: Table, beside: published.Published) -> Lines:
    """Our rows with the number of runs, each followed by the published row if it is comparable."""
    xs = table.xs
    if table.along and len(xs) > FEW:
        xs = [xs[n] for n in np.linspace(0, len(xs) - 1, FEW).astype(int)]
    below: dict[tuple[str, str], dict[Any, float]] = {}
    for key, x, value in summaries(table):
        below.setdefault(key, {})[x] = value
    averages = list(table.averaged or [AVERAGE]) if table.summary == "columns" else []
    heads = [*map(written, xs), *averages]
    counts = {key: [len(cells.get(x, {})) for x in xs] for key, cells in table.cells.items()}
    by_column = [max(column) for column in zip(*counts.values(), strict=True)]
    by_row = {key: max(own) for key, own in counts.items()}
    rows_differ = len({n for own in counts.values() for n in own}) > 1 and all(
        n in (0, by_row[key]) for key, own in counts.items() for n in own
    )
    result = [["", *heads, *(["runs"] if rows_differ else [])]]
    for key, cells in table.cells.items():
        usual = [by_row[key]] * len(xs) if rows_differ else by_column
        own = [number(cells.get(x, {}), n) for x, n in zip(xs, usual, strict=True)]
        own += [
            f"{below[key][h]:.2f}" if h in below.get(key, {}) else "-" for h in heads[len(xs) :]
        ]
        result.append([label(*key), *own, *([str(by_row[key])] if rows_differ else [])])
        if key in beside:
            row = [published.text(beside[key].get(head)) for head in heads]
            result.append(["  published", *row, *([""] if rows_differ else [])])
    if table.summary == "rows":
        same = set(table.cells) == set(beside) - set(below)  # whether the means cover the same rows
        for key, values in below.items():
            row = [f"{values[x]:.2f}" if x in values else "-" for x in xs]
            result.append([label(*key), *row, *([""] if rows_differ else [])])
            if key in beside and same:
                row = [published.text(beside[key].get(head)) for head in heads]
                result.append(["  published", *row, *([""] if rows_differ else [])])
    elif not rows_differ and not table.exact:
        blank = [""] * (len(heads) - len(xs))
        result.append(["runs", *map(str, by_column), *blank])
    return result


def label(panel: str, curve: str) -> str:
    return f"{panel}: {curve}" if panel else curve


def published_lines(rows: published.Published) -> Lines:
    """The lines of one published table."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [
        [label(*key), *(published.text(row.get(c)) for c in columns)] for key, row in rows.items()
    ]
    return [["", *columns], *cells]


class Content(NamedTuple):
    """The content of a page, independent of its format."""

    command: str
    caption: str
    ours: Lines
    below: list[str]  # sentences below the table: its protocol and its columns
    published: Lines  # the published table if it is not comparable with ours
    differences: list[str]  # differences between our settings and the paper's
    missing: list[str]
    remarks: list[str]
    provenance: str
    verdicts: list[Verdict]
    findings: str  # notes on the results


def content(own: Experiment, results: Mapping[str, Any]) -> Content:
    """The content from results: a pure function, so that committed pages can be checked."""
    table, scale = Table.read(results["table"]), results["scale"]
    theirs = published.printed(own.paper, own.published) if own.published else {}
    differs, missing = results.get("differences", []), results.get("missing", [])
    alike = theirs if theirs and not differs and not missing and scale == "full" else {}
    apart = bool(theirs) and not alike
    notes = own.notes
    return Content(
        command=command(own, scale),
        caption=f"{table.unit}; mean ± sd over repeats:"
        if own.input == "files"
        else f"Ours ({scale} scale; {table.unit}, mean ± sd over runs):",
        ours=lines(table, alike),
        below=[
            *protocol(results, table.unit),
            *([f"Columns: {table.axis}."] if table.axis else []),
        ],
        published=published_lines(theirs) if apart else [],
        differences=differs,
        missing=[f"Missing runs ({len(missing)}): {'; '.join(first_of(missing, 8)).rstrip('.')}."]
        if missing
        else [],
        remarks=[*table.notes, *filter(None, [notes.get(""), noise(own, scale)])],
        provenance=origin(results.get("provenance", {})),
        verdicts=own.verdicts(results),
        findings=notes.get("embedded", "") if scale == "embedded" else "",
    )


def protocol(results: Mapping[str, Any], unit: str) -> list[str]:
    """The protocols of the runs and the measure, as a sentence; "" without runs."""
    text = results.get("protocol")  # results of earlier versions lack it
    return [f"P{text[1:]}; {unit.partition(',')[0]}."] if text else []


def noise(own: Experiment, scale: str) -> str:
    """A sentence on the noise of repeated runs, if measured."""
    if scale != "embedded" or not own.noise:
        return ""
    text = f"{own.noise:.2g} points of accuracy in a run (`holdfast rerun-noise`)"
    return f"Rerun noise, with other threads or instructions: up to {text}."


def origin(facts: Mapping[str, Any]) -> str:
    """The provenance of results as a sentence, including facts that were not recorded."""
    if not facts:
        return ""
    told = {name: facts.get(name, NOT_RECORDED) for name in ("threads", "processor")}
    rest = "; ".join(f"{name}: {value}" for name, value in told.items())
    weights = facts.get("weights", NOT_RECORDED)
    weights = weights if isinstance(weights, str) else ", ".join(weights)
    version, commit, date = (facts.get(key, NOT_RECORDED) for key in ("version", "commit", "date"))
    return f"Version {version}, commit {commit}, {date}; {rest}; weights: {weights}."


def command(own: Experiment, scale: str) -> str:
    """The command that reproduces an experiment."""
    return f"holdfast paper {own.name}" + ("" if scale == "embedded" else f" --scale {scale}")


def page(own: Experiment, results: Mapping[str, Any], form: str = "text", picture: str = "") -> str:
    """The whole page in one of the formats of tables."""
    found, marked = content(own, results), form == "markdown"
    title = f"{own.name}: {own.shows}"
    parts = [f"# {title}" if marked else title]
    parts.append(f"`{found.command}`" if marked else found.command)
    parts.append(f"{found.caption}\n\n{formatted(found.ours, form)}")
    parts += found.below
    if picture:
        parts.append(f"![{own.shows}]({picture})" if marked else f"figure: {picture}")
    parts += found.missing
    if found.published:
        parts.append(f"Published:\n\n{formatted(found.published, form)}")
    if found.differences:
        parts.append("\n".join([f"{APART}\n", *(f"- {line}" for line in found.differences)]))
    parts += found.remarks
    parts.append(verdict_text(found.verdicts))
    if found.findings:
        parts.append(f"Findings: {found.findings}")
    if found.provenance:
        parts.append(found.provenance)
    return "\n\n".join(parts) + "\n"


def verdict_text(found: list[Verdict]) -> str:
    """The verdicts on the claims, by 95 % intervals of differences paired by run."""
    if not found:
        return NO_CLAIM
    text = []
    for group, title in GROUPS.items():
        if own := [v for v in found if v.claim.group == group]:
            text.append(f"{title}:\n\n" + "\n".join(map(line, own)))
    return "\n\n".join(text)


def line(found: Verdict) -> str:
    """A verdict as an item of a list."""
    return f"- {found.state}: {found.claim.says} ({found.because})"


def verdict(own: Experiment) -> str:
    """The number of claims by verdict, from the committed results; "" without results."""
    return tally(own.verdicts(own.committed)) if own.committed else ""
