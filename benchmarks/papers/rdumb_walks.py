"""CCC's walks from one corruption to the next: their lengths, accuracies, and images."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, permutations
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ...drawing import describe, panels, saved
from ..results.batch_means import pairs_of
from ..results.runs import Run
from ..suites.cell import Cell
from .experiment import experiment
from .picture import draw_curves, styles_for
from .table import Table, tidy

if TYPE_CHECKING:
    from ...datamodules import Calibration
    from ...datamodules.ccc import Search

Pair = tuple[tuple[str, float], tuple[str, float]]  # two corruptions and their severities
PAIR = ("gaussian_noise", "motion_blur")  # the pair in figure 2.2
COLOURS = ("#d62728", "#ff9500", "#ffe100")  # of its walks: red, orange and yellow, as there
SHOWN = 6  # severities in the grid of images
SNOWING = ("zoom_blur", "snow")  # corruptions of the images along a walk
IMAGES = 8  # number of images along a walk
SHARES = np.linspace(0, 1, 11)


class Walks(NamedTuple):
    """How the walks of a setting are found."""

    target: float  # accuracy in percent
    corruptions: Sequence[str]
    search: "Search"


def targets(cells: list[Cell]) -> tuple["Calibration", dict[str, Walks]]:
    """The calibration of the streams, and how the walks of each setting are found."""
    from ...datamodules import Calibration  # deferred: imports torch
    from ...datamodules.ccc import corruptions_for, target_of

    streams = {str(c.names["setting"]): c.config["data"]["init_args"] for c in cells}
    found = {}
    for name, own in streams.items():
        target = target_of(own["difficulty"])
        corruptions = own.get("corruptions") or corruptions_for(target)
        found[name] = Walks(target, corruptions, own.get("search", "published"))
    return Calibration.load(next(iter(streams.values()))["calibration"]), found


def path_of(
    calibration: "Calibration", pair: Sequence[str], walks: Walks
) -> tuple[list[tuple[int, int]], list[float]]:
    """The severity steps from the first corruption to the second, with the accuracy in percent at each."""
    from ...datamodules.ccc import find_path  # deferred: imports torch

    matrix = calibration.matrix(*pair)
    path = find_path(matrix, walks.target, walks.search)
    return path, [float(matrix[i, j]) for i, j in path]


@experiment("rdumb/TA.1")
def walk_lengths(cells: list[Cell]) -> pd.DataFrame:
    """lengths of CCC's walks between two corruptions"""
    calibration, settings = targets(cells)
    rows = []
    for name, own in settings.items():
        pairs = permutations(own.corruptions, 2)
        lengths = [len(path_of(calibration, pair, own)[0]) for pair in pairs]
        rows += [("", name, m.__name__, "walks", m(lengths)) for m in (min, max, mean, median)]
    return tidy(rows, unit="severity pairs in a walk", exact=True)


walk_lengths.says("harder-longer").above("CCC-Hard", "CCC-Medium", x="mean").above(
    "CCC-Medium", "CCC-Easy", x="mean"
)


def draw_accuracies(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw the images by both severities, next to the accuracies with the walks."""
    figure, (left, right) = panels(2, size=(11.5, 5.2), framed=True)
    grid: list[Pair] = [((PAIR[0], i), (PAIR[1], j)) for i in range(SHOWN) for j in range(SHOWN)]
    images = corrupted(cells[0].config["data"]["init_args"], grid)
    rows = [np.concatenate([*images[k : k + SHOWN]], axis=1) for k in range(0, len(grid), SHOWN)]
    left.imshow(np.concatenate(rows), extent=(-0.5, SHOWN - 0.5, SHOWN - 0.5, -0.5))
    label_severities(left)
    left.set_title("(a) an image by both severities", loc="left", fontsize=9)
    right.set_title("(b) walks of constant accuracy", loc="left", fontsize=9)
    calibration, settings = targets(cells)
    draw_walks(right, calibration, settings)
    return saved(figure, path)


def draw_walks(ax: Any, calibration: "Calibration", settings: Mapping[str, Walks]) -> None:
    """Draw the source accuracy over both severities of PAIR, with the walk of each setting."""
    from ...datamodules.calibration import STEP  # deferred: imports torch

    matrix, half = calibration.matrix(*PAIR), STEP / 2
    end = (len(matrix) - 1) * STEP + half
    image = ax.imshow(matrix, cmap="Blues_r", extent=(-half, end, end, -half), aspect="equal")
    for (name, own), colour in zip(settings.items(), COLOURS, strict=False):
        down, right = zip(*path_of(calibration, PAIR, own)[0], strict=True)
        steps = [[STEP * step for step in steps] for steps in (right, down)]
        ax.plot(*steps, color="black", lw=3.6)
        ax.plot(*steps, color=colour, lw=2.2, label=f"{name} ({own.target:g} %)")
    label_severities(ax)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize=8, frameon=False)
    ax.figure.colorbar(image, ax=ax, label="accuracy of the source model, %", shrink=0.75)


def label_severities(ax: Any) -> None:
    """Label the axes with the severities of PAIR, as in figure 2.2."""
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    down, across = (f"severity of {name.replace('_', ' ')}" for name in PAIR)
    ax.set(xlabel=across, ylabel=down)


def corrupted(stream: dict[str, Any], pairs: Sequence[Pair]) -> np.ndarray:
    """The first source image under each pair, without crop and flip, uint8 [n,H,W,3].

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
    index = torch.tensor([0])
    found = []
    for pair in pairs:
        image, _ = images.load(index, index)
        for slot, (name, level) in enumerate(pair, start=1):
            image = corrupt(image, name, level, slot, stream.get("table", "imagenet"))
        found.append(image[0].permute(1, 2, 0).numpy())
    return np.stack(found)


@experiment("rdumb/Fig2.2", picture=draw_accuracies)
def walk_accuracies(cells: list[Cell]) -> pd.DataFrame:
    """images under gaussian noise and motion blur, and the walks between the two"""
    calibration, settings = targets(cells)
    rows = []
    for name, own in settings.items():
        path, accuracy = path_of(calibration, PAIR, own)
        pairs = permutations(own.corruptions, 2)
        means = [float(np.mean(path_of(calibration, pair, own)[1])) for pair in pairs]
        numbers = {
            "target accuracy": own.target,
            "mean accuracy": float(np.mean(accuracy)),
            "least accuracy": min(accuracy),
            "highest accuracy": max(accuracy),
            "severity pairs": float(len(path)),
            "lowest mean of all walks": min(means),
            "highest mean of all walks": max(means),
        }
        rows += [("", name, x, "walk", number) for x, number in numbers.items()]
    return tidy(rows, unit="accuracy of the source model, %", exact=True)


walk_accuracies.says("as-meant").near(x="mean accuracy", to="target accuracy", within=1)
walk_accuracies.says("all-as-meant").near(
    x=["lowest mean of all walks", "highest mean of all walks"], to="target accuracy", within=1
)


class Step(NamedTuple):
    """The part of a stream with one pair of severities."""

    severities: dict[str, float]
    accuracy: float  # accuracy of the source model in percent


def steps(run: Run) -> list[Step]:
    """The pairs of severities in order."""
    found = []
    corrupted_rows = (row for row in run.rows if any(level for _, level in pairs_of(row)))
    for pairs, rows in groupby(corrupted_rows, pairs_of):
        found.append(Step(dict(pairs), 100 * float(np.mean([row["accuracy"] for row in rows]))))
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


def draw_walk(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw images along a walk, and below them the severities and accuracies of the table."""
    from ...datamodules.calibration import STEP  # deferred: imports torch

    figure, (strip, *axes) = panels(1 + len(t.panels), 1, size=(10, 7))
    calibration, settings = targets(cells)
    path_of_walk, _ = path_of(calibration, SNOWING, settings["CCC-Medium"])
    places = np.unique(np.linspace(0, len(path_of_walk) - 1, IMAGES).astype(int))
    levels = [[STEP * level for level in path_of_walk[n]] for n in places]
    pairs = [((SNOWING[0], first), (SNOWING[1], second)) for first, second in levels]
    images = corrupted(cells[0].config["data"]["init_args"], pairs)
    strip.imshow(np.concatenate([*images], axis=1), extent=(0, len(pairs), 0, 1))
    strip.set_xticks(np.arange(len(pairs)) + 0.5, [f"{a:g}, {b:g}" for a, b in levels])
    strip.set_yticks([])
    names = " and ".join(name.replace("_", " ") for name in SNOWING)
    describe(strip, f"(a) severities of {names} along a walk")
    strip.grid(visible=False)
    styles = styles_for(t.curves())
    for ax, panel in zip(axes, t.panels, strict=True):
        describe(ax, f"(b) {panel} along all walks", x=t.axis)
        draw_curves(ax, t, panel, styles)
        ax.legend(frameon=False, fontsize=8)
    return saved(figure, path)


@experiment("rdumb/FigA.3", picture=draw_walk)
def along_walks(runs: list[Run]) -> pd.DataFrame:
    """a walk of CCC-Medium as images; severities and the source model's accuracy along walks"""
    rows = (row for run in runs for row in rows_of_walks(run))
    return tidy(rows, unit="accuracy, %; severity, 0 to 5", axis="share of a walk, %")


def rows_of_walks(run: Run) -> Iterator[tuple[Any, ...]]:
    """Both severities and the source accuracy by the share of a walk, averaged over a run's walks."""
    numbers: dict[tuple[str, str], list[np.ndarray]] = {}
    for walk in walks(steps(run)):
        series = {}
        for curve, end in (("leaving", walk[0]), ("entering", walk[-1])):
            (name,) = end.severities
            series["severity", curve] = [step.severities.get(name, 0.0) for step in walk]
        series["accuracy", "Source"] = [step.accuracy for step in walk]
        for key, values in series.items():
            interpolated = np.interp(SHARES, np.linspace(0, 1, len(walk)), values)
            numbers.setdefault(key, []).append(interpolated)
    for key, curves in numbers.items():
        for share, value in zip(SHARES, np.mean(curves, axis=0), strict=True):
            yield *key, round(100 * share), run.place, value


along_walks.says("constant").near("Source", panel="accuracy", to=50, within=5)
