"""Delay against false alarms of every estimator and monitor on CCC."""

from pathlib import Path

import numpy as np

from ....alarms import WINDOW
from ....drawing import describe, panels, saved
from ...results.collapse import below
from ...results.estimate_quality import ONLINE, alarm_quality, alarms
from ...results.palette import COLOURS
from ...results.runs import Run
from ...suites.cell import Cell
from ..table import Table

Array = np.ndarray
MONITORS = {  # by the columns that the suite's callbacks write, in order
    "RiskMonitor": "confidence, bets",
    "RiskMonitor_2": "confidence, running",
    "RiskMonitor_3": "confidence, bets, 10 points",
    "RiskMonitor_4": "concentration, bets",
}
RAISED, DELAY, FALSE = "runs with an alarm, %", "delay, images", "false alarms per 100,000 images"


def alarms_of(run: Run) -> dict[str, Array]:
    """Flags [n] of the batches with an alarm of each monitor, and of each rule on an estimator."""
    return {
        MONITORS[name] if rule == ONLINE else f"{name}, {rule}": alarm
        for (name, rule), alarm in alarms(run).items()
        if rule != ONLINE or name in MONITORS
    }


def table(runs: list[Run]) -> Table:
    """Runs with an alarm, images from the first collapse to its alarm, and false alarms.

    A collapse is defined as in `holdfast estimators warnings`: WINDOW batches below the source model by
    more than the margin. The delay of an undetected collapse extends to the end of the stream. The alarm
    of a monitor is permanent, so a false one counts once.
    """
    found = Table(unit="see the panels")
    for run in runs:
        images, reference = run.column("images"), run.of_source("accuracy")
        collapsed = np.zeros(len(images), bool)
        if run.adapts and reference is not None:
            collapsed = below(run.column("accuracy"), reference, WINDOW)
        for name, alarm in alarms_of(run).items():
            quality = alarm_quality(collapsed, alarm, images)
            found.add(RAISED, name, run.method, run.place, 100 * bool(alarm.any()))
            rate = 100_000 * quality.false_alarms / quality.images
            found.add(FALSE, name, run.method, run.place, rate)
            if quality.collapses:
                late = images[-1] - images[np.flatnonzero(collapsed)[0]]
                delay = quality.delays[0] if quality.delays else late
                found.add(DELAY, name, run.method, run.place, delay)
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the means over runs as one point per monitor and per rule on an estimator."""
    figure, (ax,) = panels(size=(7, 4.2))
    for number, name in enumerate(found.curves(DELAY)):
        delay = np.mean(list(found.by_run(DELAY, name).values()))
        rate = np.mean(list(found.by_run(FALSE, name).values()))
        marker = "o" if name in MONITORS.values() else "x"
        colour = COLOURS[number % len(COLOURS)]
        ax.plot(rate, delay, marker, color=colour, ms=8, mew=2, label=name)
    rate_label = "false alarms per 100,000 images, mean of all runs"
    describe(ax, x=rate_label, y="delay, images, mean of runs that collapse")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return saved(figure, path)
