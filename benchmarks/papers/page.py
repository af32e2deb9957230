"""An artefact's results as text: our table, the published one beside or below it, and the verdict."""

from typing import Any, NamedTuple

import numpy as np

from ..results.statistics import deviation
from ..results.text import Lines, first_of, formatted
from . import published
from .artefact import Artefact
from .table import FAILS, HOLDS, UNDECIDED, Table, Verdict, judge

NO_CLAIM = "The paper claims nothing of this that runs could decide."
APART = "These runs are not the paper's:"
FEW = 12  # columns that are printed of a table along an axis


def number(values: dict[str, float] | None, most: int) -> str:
    """Mean ± sd over runs; how many, where other cells have more."""
    if not values:
        return "-"
    spread = deviation(values)
    text = f"{np.mean(list(values.values())):.2f}" + ("" if spread is None else f" ± {spread:.2f}")
    return text if len(values) == most or "mean" in values else f"{text} (n={len(values)})"


def lines(table: Table, beside: dict[str, dict[str, Any]]) -> Lines:
    """Ours, and below each row what is published, if it may stand there."""
    columns = table.columns
    if len(columns) > FEW:
        columns = [columns[n] for n in np.linspace(0, len(columns) - 1, FEW).astype(int)]
    most = max((len(v) for cells in table.rows.values() for v in cells.values()), default=0)
    result = [["", *columns]]
    for name, cells in table.rows.items():
        result.append([name, *(number(cells.get(column), most) for column in columns)])
        if name in beside:
            row = [published.text(beside[name].get(column)) for column in columns]
            result.append(["  published", *row])
    return result


def published_lines(rows: dict[str, dict[str, Any]]) -> Lines:
    """A published table by itself."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [[name, *(published.text(row.get(c)) for c in columns)] for name, row in rows.items()]
    return [["", *columns], *cells]


def results(artefact: Artefact, scale: str, table: Table, **facts: Any) -> dict[str, Any]:
    """What is kept of a table: its numbers and where they come from, as JSON."""
    return {"artefact": artefact.name, "scale": scale, **facts, "table": table.as_json()}


class Content(NamedTuple):
    """What a page says, whatever it looks like."""

    command: str
    caption: str
    ours: Lines
    below: list[str]  # the table, in sentences
    published: Lines  # where it may not stand beside ours
    differences: list[str]  # in what ours are not the paper's
    remarks: list[str]


def content(artefact: Artefact, kept: dict[str, Any]) -> Content:
    """From what is kept: a pure function, so that committed pages can be checked."""
    table, scale = Table(**kept["table"]), kept["scale"]
    theirs = published.printed(artefact.paper, artefact.published) if artefact.published else {}
    differs, missing = kept.get("differences", []), kept.get("missing", [])
    alike = theirs if theirs and not differs and not missing and scale == "full" else {}
    apart = bool(theirs) and not alike
    return Content(
        command=command(artefact, scale),
        caption=f"Ours ({scale} scale; {table.unit}, mean ± sd over runs):",
        ours=lines(table, alike),
        below=[f"Columns: {table.axis}."] if table.axis else [],
        published=published_lines(theirs) if apart else [],
        differences=differs,
        remarks=[*table.notes, *([artefact.remark] if artefact.remark else [])],
    )


def command(artefact: Artefact, scale: str) -> str:
    """What makes it again."""
    return f"holdfast paper {artefact.name}" + ("" if scale == "embedded" else f" --scale {scale}")


def missing_text(kept: dict[str, Any]) -> list[str]:
    """A sentence on the runs that are not there, if any."""
    missing = kept.get("missing", [])
    return (
        [f"Runs that are missing ({len(missing)}): {'; '.join(first_of(missing, 8)).rstrip('.')}."]
        if missing
        else []
    )


def page(artefact: Artefact, kept: dict[str, Any], form: str = "text", picture: str = "") -> str:
    """The whole page in one of the forms of tables."""
    found, marked = content(artefact, kept), form == "markdown"
    title = f"{artefact.name}: {artefact.shows}"
    parts = [f"# {title}" if marked else title]
    parts.append(f"`{found.command}`" if marked else found.command)
    parts.append(f"{found.caption}\n\n{formatted(found.ours, form)}")
    parts += found.below
    if picture:
        parts.append(f"![{artefact.shows}]({picture})" if marked else f"figure: {picture}")
    parts += missing_text(kept)
    if found.published:
        parts.append(f"Published:\n\n{formatted(found.published, form)}")
    if found.differences:
        parts.append("\n".join([f"{APART}\n", *(f"- {line}" for line in found.differences)]))
    parts += found.remarks
    judged = verdicts(artefact, kept)
    parts.append(verdict_text(judged))
    if why := reason(artefact, kept, judged):
        parts.append(f"Why: {why}")
    return "\n\n".join(parts) + "\n"


def verdicts(artefact: Artefact, kept: dict[str, Any]) -> list[Verdict]:
    """What becomes of each claim."""
    table = Table(**kept["table"])
    return [judge(claim, table) for claim in artefact.claims]


def reason(artefact: Artefact, kept: dict[str, Any], found: list[Verdict]) -> str:
    """Why claims do not hold, if some do not, at the scale that it is known of."""
    fails = any(verdict.state == FAILS for verdict in found)
    return artefact.why if fails and kept["scale"] == "embedded" else ""


def verdict_text(found: list[Verdict]) -> str:
    """What becomes of the paper's claims on these runs, by 95 % intervals of paired differences."""
    if not found:
        return NO_CLAIM
    return "Verdict:\n\n" + "\n".join(f"- {v.state}: {v.claim} ({v.because})" for v in found)


def verdict(artefact: Artefact, kept: dict[str, Any]) -> str:
    """How many claims hold, in a few words; "" without results."""
    if not kept:
        return ""
    states = [found.state for found in verdicts(artefact, kept)]
    words = [f"{states.count(s)} {s}" for s in dict.fromkeys(sorted(states, key=order))]
    return ", ".join(words)


def order(state: str) -> int:
    return (HOLDS, FAILS, UNDECIDED).index(state)
