"""CCC's walks from one corruption to the next: their lengths, accuracies, and images."""

from collections.abc import Iterator, Sequence
from itertools import groupby, permutations
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ...drawing import panels, pyplot, saved
from ..results.batch_means import pairs_of
from ..results.runs import Run
from ..suites.cell import Cell
from .experiment import experiment
from .table import Table, tidy

if TYPE_CHECKING:
    from ...datamodules import Calibration

Pair = tuple[tuple[str, float], tuple[str, float]]  # two corruptions and their severities
SHOWN = 6  # severities in the grid of images
SNOWING = ("zoom_blur", "snow")  # corruptions of the images along a walk
IMAGES, SEGMENTS = 8, 60  # numbers in the figure of a walk
SHARES = np.linspace(0, 1, 11)


def targets(cells: list[Cell]) -> tuple["Calibration", dict[str, tuple[float, Sequence[str]]]]:
    """The calibration of the streams, and the target accuracy and corruptions of each setting."""
    from ...datamodules import Calibration  # deferred: imports torch
    from ...datamodules.ccc import corruptions_for, target_of

    streams = {str(c.names["setting"]): c.config["data"]["init_args"] for c in cells}
    found = {}
    for name, own in streams.items():
        target = target_of(own["difficulty"])
        found[name] = target, own.get("corruptions") or corruptions_for(target)
    return Calibration.load(next(iter(streams.values()))["calibration"]), found


@experiment("rdumb/TA.1", "rdumb/ccc", takes="cells", published="TA.1")
def walk_lengths(cells: list[Cell]) -> pd.DataFrame:
    """lengths of CCC's walks between two corruptions"""
    from ..streams.ccc_paths import lengths  # deferred: imports torch

    calibration, settings = targets(cells)
    rows = []
    for name, (target, corruptions) in settings.items():
        own = lengths(calibration, target, corruptions)
        rows += [("", name, m.__name__, "walks", m(own)) for m in (min, max, mean, median)]
    return tidy(rows, unit="severity pairs in a walk", exact=True)


walk_lengths.says("harder-longer").above("CCC-Hard", "CCC-Medium", x="mean").above(
    "CCC-Medium", "CCC-Easy", x="mean"
)


def draw_accuracies(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the images by both severities, next to the accuracies with the walks."""
    from ..streams.ccc_paths import PAIR, draw_walks  # deferred: imports torch

    figure, (left, right) = panels(2, size=(11.5, 5.2), framed=True)
    grid: list[Pair] = [((PAIR[0], i), (PAIR[1], j)) for i in range(SHOWN) for j in range(SHOWN)]
    images = corrupted(cells[0].config["data"]["init_args"], grid)
    rows = [np.concatenate([*images[k : k + SHOWN]], axis=1) for k in range(0, len(grid), SHOWN)]
    left.imshow(np.concatenate(rows), extent=(-0.5, SHOWN - 0.5, SHOWN - 0.5, -0.5))
    left.xaxis.tick_top()
    left.xaxis.set_label_position("top")
    down, across = (f"severity of {name.replace('_', ' ')}" for name in PAIR)
    left.set(xlabel=across, ylabel=down)
    left.set_title("(a) an image by both severities", loc="left", fontsize=9)
    right.set_title("(b) walks of constant accuracy", loc="left", fontsize=9)
    calibration, settings = targets(cells)
    draw_walks(right, calibration, PAIR, {name: target for name, (target, _) in settings.items()})
    return saved(figure, path)


def corrupted(stream: dict[str, Any], pairs: Sequence[Pair], position: int = 0) -> np.ndarray:
    """The source image at a position under each pair, without crop and flip, uint8 [n,H,W,3].

    stream: arguments of CCC as in a suite. All images have the same noise.
    """
    import torch  # deferred: not needed for listing the experiments

    from ... import datamodules
    from ...datamodules.corruptions import corrupt

    source = stream["source"]
    config = source if isinstance(source, dict) else {"class_path": source}
    arguments = dict(config.get("init_args", {}))
    if "crop" in arguments:
        arguments["crop"] = "center"
    images = getattr(datamodules, config["class_path"].rpartition(".")[2])(**arguments)
    index = torch.tensor([position])
    clean, _ = images.load(index, index)
    found = []
    for pair in pairs:
        image = clean
        for slot, (name, level) in enumerate(pair, start=1):
            image = corrupt(image, name, level, slot, stream.get("table", "imagenet"))
        found.append(image[0].permute(1, 2, 0).numpy())
    return np.stack(found)


@experiment("rdumb/Fig2.2", "rdumb/ccc", takes="cells", picture=draw_accuracies)
def walk_accuracies(cells: list[Cell]) -> pd.DataFrame:
    """images under gaussian noise and motion blur, and the walks between the two"""
    from ..streams.ccc_paths import PAIR, walk  # deferred: imports torch

    calibration, settings = targets(cells)
    rows = []
    for name, (target, corruptions) in settings.items():
        path, accuracy = walk(calibration, PAIR, target)
        walks = (walk(calibration, pair, target)[1] for pair in permutations(corruptions, 2))
        means = [float(np.mean(accuracies)) for accuracies in walks]
        numbers = {
            "target accuracy": target,
            "mean accuracy": float(np.mean(accuracy)),
            "least accuracy": min(accuracy),
            "highest accuracy": max(accuracy),
            "severity pairs": float(len(path)),
            "lowest mean of all walks": min(means),
            "highest mean of all walks": max(means),
        }
        rows += [("", name, x, "walk", number) for x, number in numbers.items()]
    return tidy(rows, unit="accuracy of the source model, %", exact=True)


walk_accuracies.threshold("as-meant").near(x="mean accuracy", to="target accuracy", within=1)
walk_accuracies.threshold("all-as-meant").near(
    x=["lowest mean of all walks", "highest mean of all walks"], to="target accuracy", within=1
)


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
            # Unless the next walk starts at another severity.
            walk = [step]
        elif walk and alone and len(walk) == 1 and result:
            walk = [step]
        elif walk or alone:
            walk.append(step)
    return result


def severities(walk: list[Step]) -> list[tuple[str, list[float]]]:
    """The leaving and the entering corruption, with their severities along a walk."""
    names = (*walk[0].severities, *walk[-1].severities)
    return [(name, [step.severities.get(name, 0.0) for step in walk]) for name in names]


def draw_walk(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw images along a walk, and below them the start of the slowest finished run."""
    from ...datamodules import Calibration  # deferred: imports torch
    from ...datamodules.calibration import STEP
    from ...datamodules.ccc import target_of
    from ..streams.ccc_paths import walk

    figure = pyplot().figure(figsize=(10, 5), layout="constrained")
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 2))
    stream = cells[0].config["data"]["init_args"]
    calibration = Calibration.load(stream["calibration"])
    path_of_walk, _ = walk(calibration, SNOWING, target_of(stream["difficulty"]))
    places = np.unique(np.linspace(0, len(path_of_walk) - 1, IMAGES).astype(int))
    levels = [[STEP * level for level in path_of_walk[n]] for n in places]
    pairs = [((SNOWING[0], first), (SNOWING[1], second)) for first, second in levels]
    axes = above.subplots(1, len(pairs))
    for ax, pair, image in zip(axes, levels, corrupted(stream, pairs), strict=True):
        ax.imshow(image)
        ax.set_title(f"{pair[0]:g}, {pair[1]:g}", fontsize=8)
        ax.set_axis_off()
    names = " and ".join(name.replace("_", " ") for name in SNOWING)
    above.suptitle(f"(a) severities of {names} along a walk", fontsize=9, x=0.02, ha="left")
    if runs := [run for cell in cells if (run := Run.load(cell.folder)).finished]:
        draw_stream(below.subplots(), max(runs, key=lambda run: run.images / len(steps(run))))
    return saved(figure, path)


def draw_stream(ax: Any, run: Run) -> None:
    """Draw the severities of the leaving (red) and entering (blue) corruption, and the source accuracy."""
    accuracy = ax.twinx()
    for number, walk in enumerate(walks(steps(run)[:SEGMENTS])):
        images, both = [step.images for step in walk], severities(walk)
        for (_, levels), colour in zip(both, ("#d62728", "#1f77b4"), strict=True):
            ax.plot(images, levels, color=colour, lw=1.6)
        ax.axvline(images[0], color="0.85", lw=0.8, zorder=0)
        accuracy.plot(images, [step.accuracy for step in walk], "--", color="0.35", lw=1.2)
        text = " to ".join(name for name, _ in both).replace("_", " ")
        ax.text(images[0], 5.15 + 0.3 * (number % 2), text, fontsize=6)
    ax.set(ylim=(0, 5.8), xlabel=f"images seen ({run.place})")
    ax.set_ylabel("severity: leaving red, entering blue", fontsize=8)
    accuracy.set_ylim(0, 100)
    accuracy.set_ylabel("accuracy of the source model, % (dashed)", fontsize=8)
    ax.set_title("(b) severities and accuracy over the stream", loc="left", fontsize=9, pad=12)


@experiment("rdumb/FigA.3", "rdumb/ccc", method="Source", setting="CCC-Medium", picture=draw_walk)
def along_walks(runs: list[Run]) -> pd.DataFrame:
    """a walk of CCC-Medium as images; severities and the source model's accuracy along walks"""
    rows = (row for run in runs for row in rows_of_walks(run))
    return tidy(rows, unit="accuracy, %; severity, 0 to 5", axis="share of a walk, %")


def rows_of_walks(run: Run) -> Iterator[tuple[Any, ...]]:
    """Both severities and the source accuracy by the share of a walk, averaged over a run's walks."""
    numbers: dict[tuple[str, str], list[np.ndarray]] = {}
    for walk in walks(steps(run)):
        (_, leaving), (_, entering) = severities(walk)
        for key, values in (
            (("severity", "leaving"), leaving),
            (("severity", "entering"), entering),
            (("accuracy", "Source"), [step.accuracy for step in walk]),
        ):
            interpolated = np.interp(SHARES, np.linspace(0, 1, len(walk)), values)
            numbers.setdefault(key, []).append(interpolated)
    for key, curves in numbers.items():
        for share, value in zip(SHARES, np.mean(curves, axis=0), strict=True):
            yield *key, round(100 * share), run.place, value


along_walks.threshold("constant").near("Source", panel="accuracy", to=50, within=5)
