"""CCC's walks from one corruption to the next: lengths (Table A.1), accuracy, images (Figure 2.2)."""

from itertools import permutations
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np

from ....drawing import panels, saved
from ...suites.cell import Cell
from ..picture import Pair, corrupted
from ..table import Table

if TYPE_CHECKING:
    from ....datamodules import Calibration

SHOWN = range(6)  # severities in the grid of images


def targets(cells: list[Cell]) -> tuple["Calibration", dict[str, float]]:
    """The calibration of the streams, and the target accuracy of each dataset's walks."""
    from ....datamodules import Calibration  # deferred: imports torch
    from ....datamodules.ccc import target_of

    streams = {str(c.names["setting"]): c.config["data"]["init_args"] for c in cells}
    calibration = Calibration.load(next(iter(streams.values()))["calibration"])
    return calibration, {n: target_of(own["difficulty"]) for n, own in streams.items()}


def lengths_table(scale: str, cells: list[Cell]) -> Table:
    """Table A.1: minimum, maximum, mean and median length by difficulty."""
    from ...streams.ccc_paths import lengths

    calibration, wanted = targets(cells)
    streams = {str(c.names["setting"]): c.config["data"]["init_args"] for c in cells}
    found = Table(unit="severity pairs in a walk", exact=True)
    for name, target in wanted.items():
        own = lengths(calibration, target, streams[name].get("corruptions"))
        for measure in (min, max, mean, median):
            found.add("", name, measure.__name__, "walks", measure(own))
    return found


def accuracy_table(scale: str, cells: list[Cell]) -> Table:
    """Accuracy and length of the walk between the figure's corruptions, and the extremes of all walks."""
    from ....datamodules.ccc import corruptions_for  # deferred: imports torch
    from ...streams.ccc_paths import PAIR, walk

    calibration, wanted = targets(cells)
    streams = {str(c.names["setting"]): c.config["data"]["init_args"] for c in cells}
    found = Table(unit="accuracy of the source model, %", exact=True)
    for name, target in wanted.items():
        path, accuracy = walk(calibration, PAIR, target)
        pairs = permutations(streams[name].get("corruptions") or corruptions_for(target), 2)
        means = [float(np.mean(walk(calibration, pair, target)[1])) for pair in pairs]
        numbers = {
            "target accuracy": target,
            "mean accuracy": float(np.mean(accuracy)),
            "least accuracy": min(accuracy),
            "highest accuracy": max(accuracy),
            "severity pairs": float(len(path)),
            "lowest mean of all walks": min(means),
            "highest mean of all walks": max(means),
        }
        for x, number in numbers.items():
            found.add("", name, x, "walk", number)
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the images by both severities, next to the accuracies with the walks."""
    from ...streams.ccc_paths import PAIR, draw_walks

    figure, (left, right) = panels(2, size=(11.5, 5.2), framed=True)
    pairs: list[Pair] = [((PAIR[0], i), (PAIR[1], j)) for i in SHOWN for j in SHOWN]
    images = corrupted(cells[0].config["data"]["init_args"], pairs)
    side = len(SHOWN)
    rows = [np.concatenate([*images[k * side : (k + 1) * side]], axis=1) for k in range(side)]
    left.imshow(np.concatenate(rows), extent=(-0.5, side - 0.5, side - 0.5, -0.5))
    left.xaxis.tick_top()
    left.xaxis.set_label_position("top")
    left.set_xlabel(f"severity of {PAIR[1].replace('_', ' ')}")
    left.set_ylabel(f"severity of {PAIR[0].replace('_', ' ')}")
    left.set_title("(a) an image by both severities", loc="left", fontsize=9)
    right.set_title("(b) walks of constant accuracy", loc="left", fontsize=9)
    calibration, wanted = targets(cells)
    draw_walks(right, calibration, PAIR, wanted)
    return saved(figure, path)
