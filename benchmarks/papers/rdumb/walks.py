"""CCC's walks from one corruption to the next: their lengths, accuracies, and images."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, permutations
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....drawing import TWO, legend, panels, styles
from ...results.batch_means import pairs_of
from ...results.runs import Run
from ...suites.cell import Cell
from ..engine.claims import THRESHOLD, above, steady
from ..engine.experiment import table
from ..engine.picture import draw_curves, part_of
from ..engine.sources import EMBEDDED, FULL, Streams, Suite
from ..engine.table import Table, tidy

if TYPE_CHECKING:
    from ....datamodules import Calibration
    from ....datamodules.paths import Search

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


def targets(cells: Sequence[Cell]) -> tuple["Calibration", dict[str, Walks]]:
    """The calibration of the streams, and how the walks of each setting are found."""
    from ....datamodules import Calibration  # deferred: imports torch
    from ....datamodules.ccc import corruptions_for, target_of

    streams = {str(c.names["setting"]): c.config["data"]["init_args"] for c in cells}
    calibration = Calibration.load(next(iter(streams.values()))["calibration"])
    settings = {}
    for name, stream in streams.items():
        target = target_of(stream["difficulty"])
        corruptions = stream.get("corruptions") or corruptions_for(target, calibration)
        settings[name] = Walks(target, corruptions, stream.get("search", "published"))
    return calibration, settings


def path_of(
    calibration: "Calibration", pair: Sequence[str], walks: Walks
) -> tuple[list[tuple[int, int]], list[float]]:
    """The severity steps from the first corruption to the second, with the accuracy in percent at each."""
    from ....datamodules.paths import find_path  # deferred: imports torch

    matrix = calibration.matrix(*pair)
    path = find_path(matrix, walks.target, walks.search)
    return path, [float(matrix[i, j]) for i, j in path]


@table(
    "rdumb/TA.1",
    Streams("rdumb/ccc", scales=[EMBEDDED, FULL]),
    "lengths of CCC's walks between two corruptions",
)
def walk_lengths(cells: Sequence[Cell]) -> Table:
    calibration, settings = targets(cells)
    rows = []
    for name, walks in settings.items():
        pairs = permutations(walks.corruptions, 2)
        lengths = [len(path_of(calibration, pair, walks)[0]) for pair in pairs]
        rows += [("", name, m.__name__, "walks", m(lengths)) for m in (min, max, mean, median)]
    return tidy(rows, unit="severity pairs in a walk", exact=True)


walk_lengths.claim(
    "harder-longer",
    "the harder the stream, the longer its walks",
    above("CCC-Hard", "CCC-Medium", x="mean"),
    above("CCC-Medium", "CCC-Easy", x="mean"),
    quote="cells: means of 22.8, 33.9 and 41",
)


def draw_accuracies(t: Table, cells: Sequence[Cell], path: Path) -> Path:
    """Draw the images by both severities, next to the accuracies with the walks."""
    grid: list[Pair] = [((PAIR[0], i), (PAIR[1], j)) for i in range(SHOWN) for j in range(SHOWN)]
    images = corrupted(cells[0].config["data"]["init_args"], grid)
    rows = [np.concatenate([*images[k : k + SHOWN]], axis=1) for k in range(0, len(grid), SHOWN)]
    calibration, settings = targets(cells)
    with panels(path, 2, height=3.2, framed=True) as (_, (left, right)):
        left.imshow(np.concatenate(rows), extent=(-0.5, SHOWN - 0.5, SHOWN - 0.5, -0.5))
        label_severities(left)
        left.set_title("(a) an image by both severities")
        right.set_title("(b) walks of constant accuracy")
        draw_walks(right, calibration, settings)
    return path


def draw_walks(ax: Any, calibration: "Calibration", settings: Mapping[str, Walks]) -> None:
    """Draw the source accuracy over both severities of PAIR, with the walk of each setting."""
    from ....datamodules.calibration import STEP  # deferred: imports torch

    matrix, half = calibration.matrix(*PAIR), STEP / 2
    end = (len(matrix) - 1) * STEP + half
    image = ax.imshow(matrix, cmap="Blues_r", extent=(-half, end, end, -half), aspect="equal")
    for (name, walks), colour in zip(settings.items(), COLOURS, strict=False):
        down, right = zip(*path_of(calibration, PAIR, walks)[0], strict=True)
        steps = [[STEP * step for step in steps] for steps in (right, down)]
        ax.plot(*steps, color="black", lw=3.6)
        ax.plot(*steps, color=colour, lw=2.2, label=f"{name} ({walks.target:g} %)")
    label_severities(ax)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2)
    ax.figure.colorbar(image, ax=ax, label="accuracy of the source model, %", shrink=0.75)


def label_severities(ax: Any) -> None:
    """Label the axes with the severities of PAIR, as in figure 2.2."""
    ax.grid(visible=False)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    down, across = (f"severity of {name.replace('_', ' ')}" for name in PAIR)
    ax.set(xlabel=across, ylabel=down)


def corrupted(stream: dict[str, Any], pairs: Sequence[Pair]) -> np.ndarray:
    """The first source image under each pair, without crop and flip, uint8 [n,H,W,3].

    stream: arguments of CCC as in a suite. All images have the same noise.
    """
    import torch  # deferred: not needed for listing the experiments

    from .... import datamodules
    from ....datamodules.corruptions import corrupt

    source = stream["source"]
    config = source if isinstance(source, dict) else {"class_path": source}
    arguments = dict(config.get("init_args", {}))
    if "crop" in arguments:
        arguments["crop"] = "center"
    images = getattr(datamodules, config["class_path"].rpartition(".")[2])(**arguments)
    index = torch.tensor([0])
    arrays = []
    for pair in pairs:
        image, _ = images.load(index, index)
        for slot, (name, level) in enumerate(pair, start=1):
            image = corrupt(image, name, level, slot, stream.get("table", "imagenet"))
        arrays.append(image[0].permute(1, 2, 0).numpy())
    return np.stack(arrays)


@table(
    "rdumb/Fig2.2",
    Streams("rdumb/ccc", scales=[EMBEDDED, FULL]),
    "images under gaussian noise and motion blur, and the walks between the two",
    picture=draw_accuracies,
)
def walk_accuracies(cells: Sequence[Cell]) -> Table:
    calibration, settings = targets(cells)
    rows = []
    for name, walks in settings.items():
        path, accuracy = path_of(calibration, PAIR, walks)
        pairs = permutations(walks.corruptions, 2)
        means = [float(np.mean(path_of(calibration, pair, walks)[1])) for pair in pairs]
        numbers = {
            "target accuracy": walks.target,
            "mean accuracy": float(np.mean(accuracy)),
            "least accuracy": min(accuracy),
            "highest accuracy": max(accuracy),
            "severity pairs": float(len(path)),
            "lowest mean of all walks": min(means),
            "highest mean of all walks": max(means),
        }
        rows += [("", name, x, "walk", number) for x, number in numbers.items()]
    return tidy(rows, unit="accuracy of the source model, %", exact=True)


MEANS = ["lowest mean of all walks", "highest mean of all walks"]
walk_accuracies.claim(
    "as-meant",
    "the walks shown, from Gaussian noise to motion blur, have the target accuracy to "
    "within a point",
    steady(x="mean accuracy", around="target accuracy", within=1),
    group=THRESHOLD,
    quote="“such that the baseline accuracy is as close to the target as possible”, section 2.2",
)
walk_accuracies.claim(
    "all-as-meant",
    "the walks between any two corruptions have the target accuracy to within a point, "
    "the worst one included",
    steady(x=MEANS, around="target accuracy", within=1),
    group=THRESHOLD,
    quote="“such that the baseline accuracy is as close to the target as possible”, section 2.2",
)


class Step(NamedTuple):
    """The part of a stream with one pair of severities."""

    severities: dict[str, float]
    accuracy: float  # accuracy of the source model in percent


def steps_of(run: Run) -> list[Step]:
    """The pairs of severities in order."""
    pairs_in_order = []
    corrupted_rows = (row for row in run.rows if any(level for _, level in pairs_of(row)))
    for pairs, rows in groupby(corrupted_rows, pairs_of):
        accuracy = 100 * float(np.mean([row["accuracy"] for row in rows]))
        pairs_in_order.append(Step(dict(pairs), accuracy))
    return pairs_in_order


def complete_walks(steps: list[Step]) -> list[list[Step]]:
    """The complete walks from one corruption alone to another one alone.

    If a walk starts with several steps of the first corruption alone, only the last one counts, as the
    others are indistinguishable from the end of the previous walk.
    """
    result = []
    walk: list[Step] = []
    for step in steps:
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


def draw_walk(t: Table, cells: Sequence[Cell], path: Path) -> Path:
    """Draw images along a walk, and below them the severities and accuracies of the table."""
    from ....datamodules.calibration import STEP  # deferred: imports torch

    calibration, settings = targets(cells)
    path_of_walk, _ = path_of(calibration, SNOWING, settings["CCC-Medium"])
    shown = np.unique(np.linspace(0, len(path_of_walk) - 1, IMAGES).astype(int))
    levels = [[STEP * level for level in path_of_walk[n]] for n in shown]
    pairs = [((SNOWING[0], first), (SNOWING[1], second)) for first, second in levels]
    images = corrupted(cells[0].config["data"]["init_args"], pairs)
    names = " and ".join(name.replace("_", " ") for name in SNOWING)
    looks = styles(t.curves())
    with panels(path, 1 + len(t.panels), 1, height=1.5, width=TWO) as (figure, (strip, *axes)):
        strip.imshow(np.concatenate([*images], axis=1), extent=(0, len(pairs), 0, 1))
        strip.set_xticks(np.arange(len(pairs)) + 0.5, [f"{a:g}, {b:g}" for a, b in levels])
        strip.set(title=f"(a) severities of {names} along a walk", yticks=[])
        strip.grid(visible=False)
        for letter, ax, panel in zip("bcd", axes, t.panels, strict=False):
            ax.set(title=f"({letter}) {panel} along all walks", ylabel=part_of(t.unit, [], panel))
            draw_curves(ax, t, panel, looks)
        axes[-1].set_xlabel(t.axis)
        legend(figure, axes, "± 1 sd over runs, paired if narrower")
    return path


@table(
    "rdumb/FigA.3",
    Suite(
        "rdumb/ccc",
        scales=[EMBEDDED, FULL],
        only={"method": "Source", "setting": "CCC-Medium"},
    ),
    "a walk of CCC-Medium as images; severities and the source model's accuracy along walks",
    picture=draw_walk,
)
def along_walks(runs: list[Run]) -> Table:
    rows = (row for run in runs for row in rows_of_walks(run))
    return tidy(rows, unit="accuracy, %; severity, 0 to 5", axis="share of a walk, %")


def rows_of_walks(run: Run) -> Iterator[tuple[Any, ...]]:
    """Both severities and the source accuracy by the share of a walk, averaged over a run's walks."""
    numbers: dict[tuple[str, str], list[np.ndarray]] = {}
    for walk in complete_walks(steps_of(run)):
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


along_walks.claim(
    "constant",
    "on average over the walks of a run, the source model's accuracy stays within five "
    "points of that in their middle",
    steady("Source", panel="accuracy", around=50, within=5),
    group=THRESHOLD,
    quote="“in order to keep the accuracy of a pretrained model stable”, caption",
)
