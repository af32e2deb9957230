"""`holdfast calibrate --paths`: the lengths of CCC's walks (Press et al. 2023, table A.1)."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from ... import HoldfastError
from ...datamodules import Calibration, find_path
from ...datamodules.calibration import STEP
from ...datamodules.ccc import DIFFICULTIES, corruptions_for
from ...drawing import panels, saved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIR = ("gaussian_noise", "motion_blur")  # the pair in figure 2.2
KINDS = (".png", ".svg", ".pdf")
COLOURS = ("#d62728", "#ff9500", "#ffe100")  # red, orange and yellow, as there


def lengths(
    calibration: Calibration, target: float, corruptions: Sequence[str] | None = None
) -> list[int]:
    """The number of cells in the walk between each ordered pair of corruptions (default: CCC's)."""
    pairs = permutations(corruptions or corruptions_for(target), 2)
    return [len(find_path(calibration.matrix(a, b), target)) for a, b in pairs]


def walk(
    calibration: Calibration, pair: Sequence[str], target: float
) -> tuple[list[tuple[int, int]], list[float]]:
    """The severity steps from the first corruption to the second, with the accuracy in percent at each."""
    first, second = pair
    matrix = calibration.matrix(first, second, target)
    path = find_path(matrix, target)
    return path, [float(matrix[i, j]) for i, j in path]


def draw_walks(
    ax: "Axes", calibration: Calibration, pair: Sequence[str], targets: Mapping[str, float]
) -> None:
    """Draw the source accuracy over both severities, with the walk for each target (figure 2.2b)."""
    first, second = pair
    matrix = calibration.matrix(first, second, calibration.near)
    end = (len(matrix) - 1) * STEP
    half = STEP / 2
    image = ax.imshow(
        matrix, cmap="Blues_r", extent=(-half, end + half, end + half, -half), aspect="equal"
    )
    for (name, target), colour in zip(targets.items(), COLOURS, strict=False):
        down, right = zip(*walk(calibration, pair, target)[0], strict=True)
        steps = [[STEP * step for step in steps] for steps in (right, down)]
        ax.plot(*steps, color="black", lw=3.6)
        ax.plot(*steps, color=colour, lw=2.2, label=f"{name} ({target:g} %)")
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel(f"severity of {second.replace('_', ' ')}")
    ax.set_ylabel(f"severity of {first.replace('_', ' ')}")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize=8, frameon=False)
    ax.figure.colorbar(image, ax=ax, label="accuracy of the source model, %", shrink=0.75)


def show_paths(
    name: str, targets: Sequence[float] | None, picture: Path | None, pair: Sequence[str]
) -> None:
    """Print minimum, maximum, mean and median length per target; draw the walks of one pair."""
    calibration = Calibration.load(name)
    if picture:
        check_picture(calibration, picture, pair)
    names = {target: name for name, target in DIFFICULTIES.items()}
    targets = targets or [*DIFFICULTIES.values()]
    print(f"{'target':>14} {'pairs':>6} {'min':>5} {'max':>5} {'mean':>6} {'median':>7}")
    for target in targets:
        found = lengths(calibration, target)
        label = f"{names.get(target, '')} {target:g} %".strip()
        print(
            f"{label:>14} {len(found):6} {min(found):5} {max(found):5} {mean(found):6.1f} "
            f"{median(found):7g}"
        )
    if picture:
        labels = {names.get(target, f"walk {n}"): target for n, target in enumerate(targets, 1)}
        figure, (ax,) = panels(size=(6.4, 5.6), framed=True)
        draw_walks(ax, calibration, pair, labels)
        print(f"figure: {saved(figure, picture)}")


def check_picture(calibration: Calibration, picture: Path, pair: Sequence[str]) -> None:
    """Refuse a format that matplotlib cannot write, and a pair that the calibration lacks."""
    if picture.suffix not in KINDS:
        raise HoldfastError(
            f"--picture {picture} has an unsupported format. Choose a name ending in "
            f"{', '.join(KINDS)}."
        )
    if pair[0] == pair[1]:
        raise HoldfastError(f"--pair {' '.join(pair)} is invalid. Pass two different corruptions.")
    calibration.check(pair, calibration.near)
