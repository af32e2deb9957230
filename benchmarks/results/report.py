"""Tables and figure of the runs in a folder, including unfinished ones."""

from pathlib import Path
from typing import Any

from ... import printable
from ...files import reason
from ...run_folder import begun
from . import per_run, summary_tables
from .aggregate import Group, groups
from .runs import Run, find, with_results
from .summary_tables import points
from .text_table import formatted

MOST = 9  # maximum number of settings with printed details
NOTE = (
    "accuracy in percent, mean ± sd over runs; ↓: below the source model (95 % interval over batches); "
    "collapsed: also below it over the last eighth, by more than 2 points or a tenth of its accuracy, "
    "whichever is less"
)


def publish(folder: Path, form: str = "text", each_run: bool = False) -> None:
    """Print the tables and the missing runs, draw the figure, and print its path."""
    everything = find(folder)
    runs = with_results(everything)
    if not runs:
        for line in missing(everything):
            print(line)
        print(printable(f"{folder} contains no runs with results yet"))
        return
    if form == "csv":
        print(
            formatted(
                per_run.table(runs) if each_run else summary_tables.raw(groups(everything)), form
            )
        )
        return
    if each_run:
        print(formatted(per_run.table(runs), form))
    else:
        print_means(groups(everything), form)
    for line in [*missing(everything), *remarks(runs)]:
        print(line)
    if all(run.accuracy is None for run in runs):
        print(
            f"no figure: the runs have no labels. `holdfast estimators warnings {folder}` shows the "
            "estimates."
        )
        return
    from .figure import draw

    try:
        print(printable(f"figure: {draw(everything, folder / 'accuracy.png')}"))
    except OSError as error:
        print(printable(f"no figure: cannot write to {folder} ({reason(error)})"))


def print_means(found: list[Group], form: str) -> None:
    """Print methods by settings, and details if there are at most MOST settings."""
    settings = len({group.setting for group in found})
    if settings > 1:
        print(formatted(summary_tables.matrix(found), form), end="\n\n")
    if settings <= MOST:
        print(formatted(summary_tables.details(found), form))
    for line in filter(None, (summary_tables.protocols(found), NOTE)):
        print(f"({line})")
    if settings > MOST:
        print(f"(for intervals, collapses and costs of the {settings} settings, pass --format csv)")


def missing(runs: list[Run]) -> list[str]:
    """One sentence per unfinished run, as these are not part of the means."""
    found = []
    for run in runs:
        state = run.state
        if state.name == "finished":
            continue
        named = f"{run.place}, {run.label}" if run.method else str(run.folder)
        if state.name == "failed":
            found.append(
                f"failed: {named}: {state.note}" if run.method else f"failed: {state.note}"
            )
        elif state.name == "waiting":
            found.append(f"missing: {named}")
        else:
            seen = "begins"
            if begun(run.folder):
                seen = f"{points(run.accuracy)} % after {run.images:,} images"
            found.append(f"not in the means: {named} (unfinished): {seen}")
    return [printable(line) for line in found]


def remarks(runs: list[Run]) -> list[str]:
    """One sentence per remark on a single run with results."""
    found = [
        (run, "never updated", "no step changed a parameter") for run in runs if run.never_updated
    ]
    for run in runs:
        if run.not_finite:
            found.append((run, "not finite", f"{run.not_finite} steps were undone"))
        if run.not_finite_images:
            left_out = f"{run.not_finite_images} non-finite images were excluded and count as wrong"
            found.append((run, "not finite", left_out))
    for run in runs:
        if len(run.environments) > 1:
            steps = ", ".join(f"{entry['step']:,}" for entry in run.environments[1:])
            changed = f"device, threads or versions changed at step {steps}"
            found.append((run, "resumed elsewhere", changed))
    names = [f"{r.place}, {r.label}" if r.stream else str(r.folder) for r, _, _ in found]
    return [
        printable(f"{what}: {n}: {why}") for n, (_, what, why) in zip(names, found, strict=True)
    ]


def failure(run: Run) -> dict[str, Any]:
    """A failed run with its error in one line."""
    known = {"method": run.label or None, "stream": run.stream or None, "seed": run.seed}
    return {**known, "folder": str(run.folder), "error": run.state.note}


def as_json(everything: list[Run]) -> dict[str, list[dict[str, Any]]]:
    """All columns of the runs with results, of their means, and the failed runs."""
    runs = with_results(everything)
    return {
        "runs": [per_run.facts(run) for run in runs],
        "failed": [failure(run) for run in everything if run.state.name == "failed"],
        "summary": [summary_tables.facts(group) for group in groups(everything)],
    }
