"""The page of an experiment: our table, the published one next to or below it, and the verdicts."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ..results.run_statistics import Values, deviation
from ..results.text_table import Lines, first_of, formatted
from .claims import GROUPS
from .experiment import EMBEDDED, FULL, HERE, Experiment
from .table import AVERAGE, Table, written
from .verdicts import STATES, Verdict

Published = dict[tuple[str, str], dict[str, Any]]  # {(panel, curve): {x: number or [mean, sd]}}
NO_CLAIM = "The paper draws no conclusion here that runs could decide."
NOT_RECORDED = "not recorded"
FEW = 12  # maximum number of printed columns of a table along an axis
HEAD = """# Which claims hold here

The papers' claims, judged by the committed runs at embedded scale (glyphs and digits of 32 pixels, small
networks, streams of minutes). This checks mechanisms and says nothing about ImageNet. `holdfast paper NAME`
repeats the runs.

A claim is judged by 95 % intervals of differences paired by run; a run counts once, whatever the number
of its windows and columns. A claim of several parts holds if all of them do. *Undecided*: an interval
contains the limit. *Premise not met*: what the claim is about did not happen. *Not judged*: there is one
run, or these runs cannot decide it."""


def page(own: Experiment, results: Mapping[str, Any], form: str = "text", picture: str = "") -> str:
    """The whole page in one of the formats of tables, a function of the results alone.

    picture: the figure's path, if there is one.
    """
    table, scale, marked = Table.read(results["table"]), results["scale"], form == "markdown"
    theirs = printed(own.paper, own.published) if own.published else {}
    differs, missing = results.get("differences", []), results.get("missing", [])
    alike = scale == FULL and not differs and not missing
    caption = f"Ours ({scale} scale; {table.unit}, mean ± sd over runs):"
    if own.takes == "files":
        caption = f"{table.unit}; mean ± sd over repeats:"
    ours = formatted(lines(table, theirs if alike else {}), form)
    parts = [f"# {own.name}: {own.shows}" if marked else f"{own.name}: {own.shows}"]
    parts.append(f"`{command(own, scale)}`" if marked else command(own, scale))
    parts.append(f"{caption}\n\n{ours}")
    if protocol := results.get("protocol"):  # results of earlier versions lack it
        parts.append(f"P{protocol[1:]}; {table.unit.partition(',')[0]}.")
    parts += [f"Columns: {table.axis}."] if table.axis else []
    if picture:
        parts.append(f"![{own.shows}]({picture})" if marked else f"figure: {picture}")
    if missing:
        listed = "; ".join(first_of(missing, 8)).rstrip(".")
        parts.append(f"Missing runs ({len(missing)}): {listed}.")
    if theirs and not alike:
        parts.append(f"Published:\n\n{formatted(published_lines(theirs), form)}")
    if differs:
        apart = "These runs are not the paper's:"
        parts.append("\n".join([f"{apart}\n", *(f"- {line}" for line in differs)]))
    parts += [*table.notes, *filter(None, [own.notes.get(""), noise(own, scale)])]
    parts.append(verdict_text(own.verdicts(results)))
    if scale == EMBEDDED and (findings := own.notes.get(EMBEDDED)):
        parts.append(f"Findings: {findings}")
    parts += filter(None, [origin(results.get("provenance", {}))])
    return "\n\n".join(parts) + "\n"


def lines(table: Table, beside: Published) -> Lines:
    """Our rows with the number of runs, each followed by the published row if it is comparable."""
    xs = table.xs
    if table.along and len(xs) > FEW:
        xs = [xs[n] for n in np.linspace(0, len(xs) - 1, FEW).astype(int)]
    below = table.summaries
    averages = list(table.averaged or [AVERAGE]) if table.summary == "columns" else []
    heads = [*map(written, xs), *averages]
    counts = {key: [len(cells.get(x, {})) for x in xs] for key, cells in table.cells.items()}
    by_column = [max(column) for column in zip(*counts.values(), strict=True)]
    by_row = {key: max(own) for key, own in counts.items()}
    rows_differ = len({n for own in counts.values() for n in own}) > 1 and all(
        n in (0, by_row[key]) for key, own in counts.items() for n in own
    )
    result = [["", *heads, *(["runs"] if rows_differ else [])]]

    def add(name: str, cells: list[str], runs: str = "") -> None:
        result.append([name, *cells, *([runs] if rows_differ else [])])

    def add_published(key: tuple[str, str]) -> None:
        add("  published", [text_of(beside[key].get(head)) for head in heads])

    for key, cells in table.cells.items():
        usual = [by_row[key]] * len(xs) if rows_differ else by_column
        own = [number(cells.get(x, {}), n) for x, n in zip(xs, usual, strict=True)]
        own += [mean(below.get(key, {}), head) for head in averages]
        add(label(*key), own, str(by_row[key]))
        if key in beside:
            add_published(key)
    if table.summary == "rows":
        # A mean stands beside a mean of the same rows only.
        same = set(table.cells) == set(beside) - set(below)
        for key, values in below.items():
            add(label(*key), [mean(values, x) for x in xs])
            if key in beside and same:
                add_published(key)
    elif not rows_differ and not table.exact:
        add("runs", [*map(str, by_column), *[""] * len(averages)])
    return result


def number(values: Values[str], usual: int) -> str:
    """Mean ± sd over runs, with their number if it is not the usual one."""
    if not values:
        return "-"
    spread = deviation(values.values())
    text = f"{np.mean(list(values.values())):.2f}" + ("" if spread is None else f" ± {spread:.2f}")
    return text if usual == len(values) else f"{text} (n={len(values)})"


def mean(values: Mapping[Any, float], x: Any) -> str:
    """A mean of a summary as text, "-" if there is none."""
    return f"{values[x]:.2f}" if x in values else "-"


def label(panel: str, curve: str) -> str:
    """The name of a row."""
    return f"{panel}: {curve}" if panel else curve


@cache
def tables(paper: str) -> dict[str, Any]:
    """All tables of a paper; {} if it has none."""
    file = HERE / paper / "published.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def printed(paper: str, name: str) -> Published:
    """The rows of a table; the name of a nested table is the panel of its rows."""
    found: Published = {}
    for row, cells in tables(paper)[name]["rows"].items():
        nested = all(isinstance(value, dict) for value in cells.values())
        found |= {(row, key): v for key, v in cells.items()} if nested else {("", row): cells}
    return found


def text_of(value: float | list[float] | None) -> str:
    """A published number as text, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value[0]:.2f} ± {value[1]:.2f}" if isinstance(value, list) else f"{value:.2f}"


def published_lines(rows: Published) -> Lines:
    """The lines of one published table."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [[label(*key), *(text_of(row.get(c)) for c in columns)] for key, row in rows.items()]
    return [["", *columns], *cells]


def noise(own: Experiment, scale: str) -> str:
    """A sentence on the noise of repeated runs, if measured."""
    if scale != EMBEDDED or not own.noise:
        return ""
    text = f"{own.noise:.2g} points of accuracy in a run"
    return f"Rerun noise, with other threads or instructions: up to {text}."


def origin(facts: Mapping[str, Any]) -> str:
    """The provenance of results as a sentence, including facts that were not recorded."""
    if not facts:
        return ""
    version, commit, date, threads, processor, weights = (
        facts.get(key, NOT_RECORDED)
        for key in ("version", "commit", "date", "threads", "processor", "weights")
    )
    weights = weights if isinstance(weights, str) else ", ".join(weights)
    where = f"threads: {threads}; processor: {processor}; weights: {weights}"
    return f"Version {version}, commit {commit}, {date}; {where}."


def command(own: Experiment, scale: str) -> str:
    """The command that reproduces an experiment."""
    return f"holdfast paper {own.name}" + ("" if scale == EMBEDDED else f" --scale {scale}")


def verdict_text(found: list[Verdict]) -> str:
    """The verdicts on the claims, by 95 % intervals of differences paired by run."""
    text = []
    for group, title in GROUPS.items():
        if own := [verdict for verdict in found if verdict.claim.group == group]:
            text.append(f"{title}:\n\n" + "\n".join(map(line, own)))
    return "\n\n".join(text) or NO_CLAIM


def line(found: Verdict) -> str:
    """A verdict as an item of a list."""
    return f"- {found.state}: {found.claim.says} ({found.because})"


def overview(several: Iterable[Experiment]) -> str:
    """docs/papers/claims.md: all verdicts by the committed results of these experiments."""
    found = [(own, own.verdicts(own.committed)) for own in several if own.committed]
    rows = [["", "claims", *STATES], ["---"] * (len(STATES) + 2)]
    parts = []
    for group, title in GROUPS.items():
        parts.append(f"## {title}")
        states = []
        for own, judged in found:
            if chosen := [verdict for verdict in judged if verdict.claim.group == group]:
                chosen.sort(key=lambda verdict: STATES.index(verdict.state))
                states += [verdict.state for verdict in chosen]
                parts.append(f"**[{own.name}]({own.paper}/{own.file}.md)**: {own.shows}")
                parts.append("\n".join(map(line, chosen)))
        rows.append([title, str(len(states)), *(str(states.count(s)) for s in STATES)])
    counts = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([HEAD, counts, *parts]) + "\n"
