"""An artefact's results as text: our table, the published one beside or below it, and the verdict."""

from typing import Any

import numpy as np

from ..results.statistics import deviation
from ..results.text import Lines, formatted
from . import published
from .artefact import Artefact
from .table import UNDECIDED, Table, judge

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


def page(artefact: Artefact, kept: dict[str, Any], form: str = "text", picture: str = "") -> str:
    """The whole page from what is kept: a pure function, so that committed pages can be checked."""
    table, scale = Table(**kept["table"]), kept["scale"]
    theirs = published.printed(artefact.paper, artefact.published) if artefact.published else {}
    differs, missing = kept.get("differences", []), kept.get("missing", [])
    alike = theirs if theirs and not differs and not missing and scale == "full" else {}
    show = lambda rows: formatted(rows, form)  # noqa: E731
    head = (
        f"# {artefact.name}: {artefact.shows}"
        if form == "markdown"
        else f"{artefact.name}: {artefact.shows}"
    )
    command = f"holdfast paper {artefact.name}" + (
        "" if scale == "embedded" else f" --scale {scale}"
    )
    parts = [head, f"`{command}`" if form == "markdown" else command]
    parts.append(
        f"Ours ({scale} scale; {table.unit}, mean ± sd over runs):\n\n{show(lines(table, alike))}"
    )
    if table.axis:
        parts.append(f"Columns: {table.axis}.")
    if picture:
        parts.append(
            f"![{artefact.shows}]({picture})" if form == "markdown" else f"figure: {picture}"
        )
    if missing:
        parts.append(f"Runs that are missing ({len(missing)}): {shortened(missing)}.")
    if theirs and not alike:
        why = f"These runs are not the paper's: {shortened(differs)}." if differs else ""
        parts.append(f"Published:\n\n{show(published_lines(theirs))}\n\n{why}".rstrip())
    parts += table.notes
    if artefact.remark:
        parts.append(artefact.remark)
    parts.append(verdict_text(artefact, table))
    return "\n\n".join(parts) + "\n"


def shortened(several: list[str], most: int = 8) -> str:
    """The first of a list in a sentence, and how many there are besides."""
    more = f"; and {len(several) - most} more" if len(several) > most else ""
    return "; ".join(several[:most]) + more


def verdict_text(artefact: Artefact, table: Table) -> str:
    """What becomes of the paper's claims on these runs, by 95 % intervals of paired differences."""
    if not artefact.claims:
        return "The paper claims nothing of this that runs could decide."
    found = [judge(claim, table) for claim in artefact.claims]
    return "Verdict:\n\n" + "\n".join(f"- {v.state}: {v.claim} ({v.because})" for v in found)


def verdict(artefact: Artefact, kept: dict[str, Any]) -> str:
    """How many claims hold, in a few words; "" without results."""
    if not kept:
        return ""
    states = [judge(claim, Table(**kept["table"])).state for claim in artefact.claims]
    words = [f"{states.count(s)} {s}" for s in dict.fromkeys(sorted(states, key=order))]
    return ", ".join(words)


def order(state: str) -> int:
    return ("holds", "does not hold", UNDECIDED).index(state)
