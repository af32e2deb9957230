"""Figure 6: AETTA's recovery and DistShift over the stream, with their resets."""

from pathlib import Path

import numpy as np

from ....drawing import describe, panels, saved
from ...results.palette import COLOURS
from ...results.runs import Run
from ...suites.cell import Cell
from ..table import Table
from ..tables import SHARES, WINDOWS, windows

SCHEMES = {"": "no recovery", "DistShift": "DistShift", "AETTA": "AETTA"}
TRAILING = 5  # batches per trailing mean in the figure


def along(runs: list[Run]) -> Table:
    """Accuracy and number of resets in each twentieth of the stream, by reset scheme."""
    found = Table(unit="accuracy, %; number of resets", axis="share of the stream, %")
    for panel in ("accuracy", "resets"):
        for run in sorted(runs, key=lambda run: list(SCHEMES).index(run.override)):
            resets = [float(part.sum()) for part in np.array_split(run.column("reset"), WINDOWS)]
            values = windows(run) if panel == "accuracy" else resets
            for x, value in zip(SHARES, values, strict=True):
                if panel == "accuracy" or run.override:
                    found.add(panel, SCHEMES[run.override], x, run.place, value)
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the runs of the first seed as trailing means, with a mark per reset below."""
    from ...results.collapse import trailing_mean

    runs = [run for cell in cells if (run := Run.load(cell.folder)).finished]
    figure, (ax,) = panels(size=(8, 3.2))
    for level, run in enumerate(run for run in runs if run.seed == runs[0].seed):
        images, colour = run.column("images"), COLOURS[level]
        accuracy = trailing_mean(100 * run.column("accuracy"), TRAILING)
        ax.plot(images, accuracy, color=colour, lw=1.5, label=SCHEMES[run.override])
        resets = images[run.column("reset") > 0]
        ax.plot(resets, np.full(len(resets), -3.0 * level), "|", color=colour, ms=8, mew=1.6)
    title = f"{runs[0].method}; resets are marked below"
    describe(ax, title, "images seen", "accuracy, %", grid="y")
    ax.legend(frameon=False, fontsize=8)
    return saved(figure, path)
