"""The report of the runs in a folder, finished or not: tables, missing runs and remarks; their status."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ... import printable
from ...files import reason
from . import tables
from .deadline import Limit, curves
from .deadline import draw as draw_curves
from .groups import groups
from .run_protocol import sentence
from .run_state import STATES, State
from .runs import Run, with_results
from .text_table import duration, first_of, formatted, percent, points

_MOST = 9  # maximum number of settings with printed details
_POINT = 0.01  # of accuracy
_NOTE = (
    "NLL in nats; ↓: below the source model (95 % interval over batches); collapsed: also below it over "
    "the last eighth, by more than 2 points or a tenth of its accuracy, whichever is less; ?: too few "
    "batches there for an interval, or no source model"
)


def publish(
    folder: Path,
    everything: list[Run],
    form: str = "text",
    table: str = "means",
    columns: Sequence[str] = (),
    limit: Limit | None = None,
    figure: Path | None = None,
) -> None:
    """Print a table of the runs in a folder; with text also missing runs and remarks, and draw the figure.

    Args:
        folder: of the runs.
        everything: the runs of `find(folder)`.
        form: one of FORMATS; of all but text the standard output has nothing but the table.
        table: "means", "runs" or "pairs".
        columns: the columns of means or runs (default: all that have a value).
        limit: the time of a prediction that is not late, to score those that are.
        figure: the file of the figure (default: accuracy.png in the folder).
    """
    for run in everything:
        run.limit = limit
    runs, settings = with_results(everything), groups(everything)
    if form == "json" and table != "pairs":
        late = {} if limit is None else {"deadline_curve": curves(settings)}
        print(json.dumps(as_json(everything) | late, indent=1))
        return
    kinds = {"means": tables.means, "runs": lambda _: tables.frame(runs), "pairs": tables.pairs}
    numbers = kinds[table](settings)
    if form in ("csv", "json"):
        tables.check_columns(columns, numbers)
        print(formatted(numbers[[*columns]] if columns else numbers, form))
        return
    if form == "latex" and table == "means":
        best = numbers.groupby("setting")["accuracy"].transform("max")
        numbers["best"] = numbers["accuracy"] == best
    lines = [*missing(everything), *remarks(runs), _figure(runs, folder, figure)]
    if limit is not None:
        path = draw_curves(settings, folder / "deadline.png")
        absent = "no utility: no source model on the same images, or records of earlier versions"
        lines.append(printable(f"utility over response times: {path}" if path else absent))
    caption = ""
    shown: list[pd.DataFrame] = []
    if runs and table == "means":
        count = numbers["setting"].nunique()
        if count > 1 and not columns:
            shown.append(tables.matrix(numbers))
        if columns or count <= _MOST:
            shown.append(tables.details(numbers, columns))
        said = [*notes(numbers), *indistinct(tables.pairs(settings))]
        caption = "; ".join([*notes(numbers), "bold: the highest mean"])
        lines = [f"({line})" for line in said] + lines
    elif runs and table == "runs":
        shown = [tables.runs_table(runs, columns)]
    elif runs:
        shown = [tables.pairs_table(numbers)]
    for number, each in enumerate(shown):
        label = folder.resolve().name + (f"-{number}" if number else "")
        print(formatted(each, form, caption, label), end="\n\n" if each is not shown[-1] else "\n")
    print(*lines, sep="\n", file=sys.stdout if form == "text" else sys.stderr)


def _figure(runs: list[Run], folder: Path, file: Path | None) -> str:
    """Draw the figure; returns its path, or why there is none, as a sentence."""
    from .figure import draw  # deferred: slow import

    if not runs:
        return printable(f"{folder} contains no runs with results yet")
    if all(run.accuracy is None for run in runs):
        return printable(
            f"no figure: the runs have no labels. `holdfast report {folder} --html FILE` draws the "
            "estimates."
        )
    try:
        return printable(f"figure: {draw(runs, file or folder / 'accuracy.png')}")
    except OSError as error:
        return printable(f"no figure: cannot write {file or folder} ({reason(error)})")


def notes(table: pd.DataFrame) -> list[str]:
    """The protocols of the runs, and how to read the table."""
    begun = table[table["runs"] > 0][["setting", "method", "protocol"]]
    protocols = sentence(begun.itertuples(index=False, name=None))
    lines = [f"{protocols}; accuracy"] if protocols else []
    over = ", ".join(table["over"].dropna().unique())
    spread = f", mean ± sd over {over}" if over else ""
    intervals = "runs" if "seed" in over else "batches, as there is one seed"
    lines.append(f"accuracy and ECE in percent{spread}; [95 %]: over {intervals}; {_NOTE}")
    if (settings := table["setting"].nunique()) > _MOST:
        more = f"for intervals, collapses and costs of the {settings} settings, pass --format csv"
        lines.append(more)
    return lines


def indistinct(table: pd.DataFrame) -> list[str]:
    """The `pairs` of methods whose interval contains 0, as one sentence."""
    same = table[(table["low"] <= 0) & (table["high"] >= 0)]
    end = " in {0.setting}" if table["setting"].nunique() > 1 else ""
    names = [f"{row.method} and {row.other}" + end.format(row) for row in same.itertuples()]
    if not names:
        return []
    listed = ", ".join(first_of(names))
    return [
        f"not distinguishable, as the 95 % interval of their paired difference contains 0: {listed}; "
        "--pairs lists all differences"
    ]


def missing(runs: list[Run]) -> list[str]:
    """One sentence per unfinished run, as these are not part of the means."""
    lines = []
    for run in runs:
        state = run.state
        named = f"{run.place}, {run.label}" if run.method else str(run.folder)
        if state.name == "failed":
            lines.append(f"failed: {named}: {state.note}")
        elif state.name == "waiting":
            lines.append(f"missing: {named}")
        elif state.name != "finished":
            seen = "begins"
            if run.begun:
                seen = f"{points(run.accuracy)} % after {run.images:,} images"
            lines.append(f"not in the means: {named} (unfinished): {seen}")
    return list(map(printable, lines))


def remarks(runs: list[Run]) -> list[str]:
    """One sentence per remark on a single run with results."""
    lines = []
    for run in runs:
        named = f"{run.place}, {run.label}"
        if run.never_updated:
            lines.append(f"never updated: {named}: no step changed a parameter")
        by_batch, by_image = run.accuracy, run.accuracy_per_image
        if by_batch is not None and by_image is not None and abs(by_batch - by_image) > _POINT:
            both = (
                f"{points(by_batch)} % as the mean over batches, {points(by_image)} % over images"
            )
            lines.append(f"batches of different sizes: {named}: accuracy {both}")
        if run.not_finite:
            lines.append(f"not finite: {named}: {run.not_finite} steps were undone")
        if n := run.not_finite_images:
            lines.append(
                f"not finite: {named}: {n} non-finite images were excluded and count as wrong"
            )
        if others := run.provenance.get("ran_on", [])[1:]:
            steps = ", ".join(f"{entry['step']:,}" for entry in others)
            changed = f"device, threads or versions changed at step {steps}"
            lines.append(f"resumed elsewhere: {named}: {changed}")
    return list(map(printable, lines))


def as_json(everything: list[Run]) -> dict[str, list[dict[str, Any]]]:
    """All entries of the runs with results, of their means, and the failed runs."""
    failed = [
        {
            "method": run.label or None,
            "stream": run.stream or None,
            "seed": run.seed,
            "folder": str(run.folder),
            "error": run.state.note,
        }
        for run in everything
        if run.state.name == "failed"
    ]
    return {
        "runs": [tables.run_row(run) for run in with_results(everything)],
        "failed": failed,
        "summary": tables.records(tables.means(groups(everything))),
    }


def status(folder: Path, runs: list[Run]) -> str:
    """One line per run with its progress, owner or error, then the number of runs in each state."""
    if not runs:
        return f"{folder} contains no runs yet"
    lines = []
    states: Counter[str] = Counter()
    for run in runs:
        state = run.state
        name = run.folder.relative_to(folder).as_posix()
        lines.append((name, state.name, *_progress(run, state), state.note))
        states[state.name] += 1
    count = ", ".join(f"{states[name]} {name}" for name in STATES if name in states)
    return f"{formatted(lines)}\n{len(lines)} runs: {count}"


def _progress(run: Run, state: State) -> tuple[str, str, str, str]:
    """Accuracy, images, and of a running one speed and remaining time; "" where unknown."""
    if not run.begun:
        return "", "", "", ""
    length = run.provenance.get("images")
    images = f"{run.images:,}{f'/{length:,}' if length else ''} images"
    if state.name != "running":
        return percent(run.accuracy), images, "", ""
    left = duration((length - run.images) / run.images_per_second) if length else "?"
    return percent(run.accuracy), images, f"{run.images_per_second:,.0f}/s", f"{left} left"
