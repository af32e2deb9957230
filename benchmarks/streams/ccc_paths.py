"""CCC's walks through a calibration (Press et al. 2023, figure 2.2 and table A.1)."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING

from ...datamodules import Calibration, find_path
from ...datamodules.calibration import STEP
from ...datamodules.ccc import corruptions_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIR = ("gaussian_noise", "motion_blur")  # the pair in figure 2.2
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
    matrix = calibration.matrix(first, second)
    path = find_path(matrix, target)
    return path, [float(matrix[i, j]) for i, j in path]


def draw_walks(
    ax: "Axes", calibration: Calibration, pair: Sequence[str], targets: Mapping[str, float]
) -> None:
    """Draw the source accuracy over both severities, with the walk for each target (figure 2.2b)."""
    first, second = pair
    matrix = calibration.matrix(first, second)
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
