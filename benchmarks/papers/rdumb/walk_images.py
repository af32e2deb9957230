"""Figure A.3: a walk of CCC from one corruption to the next, as images and numbers (app. A.2)."""

from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....drawing import pyplot, saved
from ...results.batch_means import pairs_of
from ...results.runs import Run
from ...suites.cell import Cell
from ..picture import Pair, corrupted
from ..table import Table

PAIR = ("zoom_blur", "snow")  # corruptions of the images
SHARES = np.linspace(0, 1, 11)
LEAVING, ENTERING = ("severity", "leaving"), ("severity", "entering")
ACCURACY = ("accuracy", "Source")
IMAGES, SEGMENTS = 8, 60  # numbers in the figure


class Step(NamedTuple):
    """The part of a stream with one pair of severities."""

    severities: dict[str, float]
    accuracy: float  # accuracy of the source model in percent
    images: int  # number of images up to its end


def steps(run: Run) -> list[Step]:
    """The pairs of severities in order."""
    found = []
    corrupted_rows = (row for row in run.rows if any(level for _, level in pairs_of(row)))
    for pairs, rows in groupby(corrupted_rows, pairs_of):
        same = list(rows)
        accuracy = 100 * float(np.mean([row["accuracy"] for row in same]))
        found.append(Step(dict(pairs), accuracy, same[-1]["images"]))
    return found


def walks(found: list[Step]) -> list[list[Step]]:
    """The complete walks from one corruption alone to another one alone.

    If a walk starts with several steps of the first corruption alone, only the last one counts, as the
    others are indistinguishable from the end of the previous walk.
    """
    result = []
    walk: list[Step] = []
    for step in found:
        alone = len(step.severities) == 1
        if walk and alone and step.severities.keys() != walk[0].severities.keys():
            result.append([*walk, step])
            walk = [step]  # unless the next walk starts at another severity
        elif walk and alone and len(walk) == 1 and result:
            walk = [step]
        elif walk or alone:
            walk.append(step)
    return result


def table(runs: list[Run]) -> Table:
    """Both severities and the source accuracy by the share of a walk, averaged over the walks."""
    found = Table(unit="accuracy, %; severity, 0 to 5", axis="share of a walk, %")
    for run in runs:
        numbers: dict[tuple[str, str], list[np.ndarray]] = {LEAVING: [], ENTERING: [], ACCURACY: []}
        for walk in walks(steps(run)):
            (first,), (last,) = walk[0].severities, walk[-1].severities
            along = np.linspace(0, 1, len(walk))
            for curve, values in (
                (LEAVING, [step.severities.get(first, 0.0) for step in walk]),
                (ENTERING, [step.severities.get(last, 0.0) for step in walk]),
                (ACCURACY, [step.accuracy for step in walk]),
            ):
                numbers[curve].append(np.interp(SHARES, along, values))
        for curve, curves in numbers.items():
            for share, value in zip(
                SHARES, np.mean(curves, axis=0) if curves else (), strict=False
            ):
                found.add(*curve, round(100 * share), run.place, value)
    return found


def picture(found: Table, cells: list[Cell], path: Path) -> Path:
    """Draw images along a walk, and below them the start of the first available run."""
    plt = pyplot()

    runs = [run for cell in cells if (run := Run.load(cell.folder)).finished]
    figure = plt.figure(figsize=(10, 5), layout="constrained")
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 2))
    stream = cells[0].config["data"]["init_args"]
    pairs = along(stream)
    axes = above.subplots(1, len(pairs))
    for ax, pair, image in zip(axes, pairs, corrupted(stream, pairs), strict=True):
        ax.imshow(image)
        ax.set_title(f"{pair[0][1]:g}, {pair[1][1]:g}", fontsize=8)
        ax.set_axis_off()
    names = " and ".join(name.replace("_", " ") for name in PAIR)
    above.suptitle(f"(a) severities of {names} along a walk", fontsize=9, x=0.02, ha="left")
    if runs:
        over_stream(below.subplots(), max(runs, key=speed))
    return saved(figure, path)


def speed(run: Run) -> float:
    """Images per pair of severities."""
    return run.images / max(len(steps(run)), 1)


def over_stream(ax: Any, run: Run) -> None:
    """Draw the severities of the fading (red) and rising (blue) corruption, and the source accuracy."""
    shown = walks(steps(run)[:SEGMENTS])
    accuracy = ax.twinx()
    for number, walk in enumerate(shown):
        (first,), (last,) = walk[0].severities, walk[-1].severities
        images = [step.images for step in walk]
        for name, colour in ((first, "#d62728"), (last, "#1f77b4")):
            ax.plot(images, [step.severities.get(name, 0.0) for step in walk], color=colour, lw=1.6)
        ax.axvline(images[0], color="0.85", lw=0.8, zorder=0)
        style: dict[str, Any] = {"color": "0.35", "ls": "--", "lw": 1.2}
        accuracy.plot(images, [step.accuracy for step in walk], **style)
        text = f"{first} to {last}".replace("_", " ")
        ax.text(images[0], 5.15 + 0.3 * (number % 2), text, fontsize=6)
    ax.set_ylim(0, 5.8)
    accuracy.set_ylim(0, 100)
    ax.set_ylabel("severity: leaving red, entering blue", fontsize=8)
    accuracy.set_ylabel("accuracy of the source model, % (dashed)", fontsize=8)
    ax.set_xlabel(f"images seen ({run.place})", fontsize=8)
    ax.set_title("(b) severities and accuracy over the stream", loc="left", fontsize=9, pad=12)


def along(stream: dict[str, Any]) -> list[Pair]:
    """Pairs of severities, evenly spaced over the walk between the figure's corruptions."""
    from ....datamodules import Calibration  # deferred: imports torch
    from ....datamodules.calibration import STEP
    from ....datamodules.ccc import target_of
    from ...streams.ccc_paths import walk

    path, _ = walk(Calibration.load(stream["calibration"]), PAIR, target_of(stream["difficulty"]))
    places = np.unique(np.linspace(0, len(path) - 1, IMAGES).astype(int))
    return [((PAIR[0], STEP * path[n][0]), (PAIR[1], STEP * path[n][1])) for n in places]
