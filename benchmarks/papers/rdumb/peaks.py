"""Figure 2.5a: the steps until ETA reaches its highest accuracy on a corruption (thesis §2.6)."""

import numpy as np

from ...results.batch_means import severity
from ...results.run_statistics import Values, above_zero, paired
from ...results.runs import Run, grouped
from ..primitives import Part
from ..table import Table, X
from ..tables import WINDOWS, windows

EARLY = 200  # steps (12,500 images) at which the paper observes the peak


def table(runs: list[Run]) -> Table:
    """Accuracy by step in percent of the highest accuracy, for each corruption and severity.

    The highest accuracy is that of the mean over the runs, in windows of a twentieth of the steps.
    """
    found = Table(unit="accuracy, % of its highest", axis="steps")
    peaks: dict[str, list[str]] = {}
    for same in grouped(runs, lambda run: run.stream).values():
        curves = {run.place: windows(run) for run in same}
        mean = np.mean(list(curves.values()), axis=0)
        steps = ends(len(same[0].rows))
        setting, level = same[0].setting, severity(same[0])
        peaks.setdefault(setting, []).append(str(steps[int(mean.argmax())]))
        for run, curve in curves.items():
            for x, value in zip(steps, curve, strict=True):
                share = 100 * value / max(mean.max(), 1e-9)
                found.add(setting, f"severity {level}", x, run, share)
    found.notes = [
        f"{name}: ETA is at its highest after {', '.join(steps)} steps (severities in their order, in "
        f"windows of {found.xs[0]})."
        for name, steps in peaks.items()
    ]
    return found


def ends(steps: int) -> list[int]:
    """The last step of each window."""
    sizes = [len(part) for part in np.array_split(np.arange(steps), WINDOWS)]
    return [int(end) for end in np.cumsum(sizes)]


def near_peak(t: Table) -> X:
    """The column of the paper's 200 steps, or the middle of a shorter run."""
    later = [x for x in t.xs if isinstance(x, int | float) and x >= EARLY]
    return later[0] if len(later) > 1 else t.xs[len(t.xs) // 2]


def gained(t: Table) -> list[Part]:
    """The rise of accuracy up to 200 steps, minus its distance from the highest accuracy at that step."""
    return [part(t, panel, lacks=True) for panel in t.panels]


def kept(t: Table) -> list[Part]:
    """The rise of accuracy up to 200 steps minus its fall after them."""
    return [part(t, panel, lacks=False) for panel in t.panels]


def falls(t: Table) -> list[Part]:
    """The decrease of accuracy after 200 steps."""
    at, last = near_peak(t), t.xs[-1]
    return [
        Part(panel, paired(by_curve(t, panel, at), by_curve(t, panel, last)), 0)
        for panel in t.panels
    ]


def by_curve(t: Table, panel: str, x: X) -> Values[str]:
    """The numbers of the runs of all severities."""
    return {f"{c}, {run}": v for c in t.curves(panel) for run, v in t.values(panel, c, x).items()}


def part(t: Table, panel: str, lacks: bool) -> Part:
    """The mean over the runs of all severities of one corruption."""
    at, first, last = near_peak(t), t.xs[0], t.xs[-1]
    early, middle, late = (by_curve(t, panel, x) for x in (first, at, last))
    changes = {
        run: value - early[run] - (100 - value if lacks else value - late[run])
        for run, value in middle.items()
    }
    return Part(panel, above_zero(changes), 0)
