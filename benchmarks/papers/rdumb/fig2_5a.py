"""Figure 2.5a: how soon ETA is at its highest accuracy on a corruption (thesis §2.6)."""

import numpy as np

from ...results.runs import Run, grouped
from ...results.statistics import Difference, paired
from ..artefact import Artefact
from ..curves import WINDOWS, windows
from ..table import Claim, Table

EARLY = 200  # steps, 12,500 images: where the paper sees the peak


def table(runs: list[Run]) -> Table:
    """Accuracy in percent of the highest by the step, for each corruption and severity.

    The highest is that of the mean over the runs, in windows of a twentieth of the steps.
    """
    found = Table([], {}, "accuracy, % of its highest", "steps")
    peaks: dict[str, list[str]] = {}
    for stream, same in grouped(runs, lambda run: run.stream).items():
        curves = {run.place: windows(run) for run in same}
        mean = np.mean(list(curves.values()), axis=0)
        columns = ends(len(same[0].rows))
        found.columns = found.columns or columns
        severity = stream.removeprefix(same[0].setting).strip()
        peaks.setdefault(same[0].setting, []).append(columns[int(mean.argmax())])
        for run, curve in curves.items():
            for column, value in zip(columns, curve, strict=True):
                found.add(
                    f"{same[0].setting}: severity {severity}",
                    column,
                    run,
                    100 * value / max(mean.max(), 1e-9),
                )
    found.notes = [
        f"{name}: ETA is at its highest after {', '.join(steps)} steps (severities in their order, in "
        f"windows of {found.columns[0]})."
        for name, steps in peaks.items()
    ]
    return found


def ends(steps: int) -> list[str]:
    """The last step of each window."""
    sizes = [len(part) for part in np.array_split(np.arange(steps), WINDOWS)]
    return [str(end) for end in np.cumsum(sizes)]


def near_peak(t: Table) -> str:
    """The column of the paper's 200 steps; the middle of a run that is not longer than that."""
    later = [c for c in t.columns if int(c) >= EARLY]
    return later[0] if len(later) > 1 else t.columns[len(t.columns) // 2]


def corruptions(t: Table) -> dict[str, list[str]]:
    """The rows of each corruption."""
    return grouped(t.rows, lambda row: row.partition(": ")[0])


def changes(t: Table, rows: list[str], column: str, other: str) -> dict[str, float]:
    """One column less another in these rows, run by run."""
    values = [{row: t.rows[row][c] for row in rows} for c in (column, other)]
    return {
        f"{row}, {run}": values[0][row][run] - values[1][row][run]
        for row in rows
        for run in values[0][row].keys() & values[1][row].keys()
    }


def slower(t: Table, rows: list[str]) -> Difference | None:
    """By how much more accuracy rises up to the 200 steps than it falls behind them."""
    at = near_peak(t)
    rise, fall = changes(t, rows, at, t.columns[0]), changes(t, rows, at, t.columns[-1])
    return t.decided(paired(rise, fall))


def rises(t: Table, rows: list[str]) -> Difference | None:
    """By how much accuracy rises up to the 200 steps, less what it lacks of the highest then."""
    at = near_peak(t)
    rise = changes(t, rows, at, t.columns[0])
    lacks = {f"{row}, {run}": 100 - value for row in rows for run, value in t.rows[row][at].items()}
    return t.decided(paired(rise, lacks))


ARTEFACT = Artefact(
    name="rdumb/Fig2.5a",
    shows="ETA from scratch on each hold-out corruption and severity: steps to its highest accuracy",
    suites={"embedded": ("rdumb/peaks-glyphs",), "full": ("rdumb/peaks",)},
    of_runs=table,
    claims=(
        Claim(
            "after 200 steps ETA has gained more than it lacks of its highest accuracy",
            lambda t: [rises(t, rows) for rows in corruptions(t).values()],
        ),
        Claim(
            "from there on it falls by less than it rose",
            lambda t: [slower(t, rows) for rows in corruptions(t).values()],
        ),
    ),
    remark="The paper draws curves only, and says that the highest accuracy comes after about 12,500 "
    "images or 200 steps. In runs that are no longer than that, their middle stands for it.",
    why=(
        "Gaussian blur of severity 3 and more leaves nothing to learn at 32 pixels: ETA is at its "
        "best after 20 steps there and falls. On the other three corruptions it stays near its "
        "highest accuracy to the end."
    ),
)
