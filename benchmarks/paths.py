"""`holdfast paths`: how long CCC's walks are under a calibration (Press et al. 2023, table A.1)."""

import argparse
from collections.abc import Sequence
from itertools import permutations
from statistics import mean, median

from ..datamodules import Calibration, find_path
from ..datamodules.ccc import DIFFICULTIES, corruptions_for


def lengths(
    calibration: Calibration, target: float, corruptions: Sequence[str] | None = None
) -> list[int]:
    """Cells in the walk between each ordered pair of corruptions, by default CCC's for the target."""
    pairs = permutations(corruptions or corruptions_for(target), 2)
    return [len(find_path(calibration.matrix(a, b), target)) for a, b in pairs]


def main(argv: list[str]) -> int:
    """Print minimum, maximum, mean and median for each difficulty."""
    parser = argparse.ArgumentParser(prog="holdfast paths", description=__doc__)
    parser.add_argument("calibration", help="name or file of a calibration")
    parser.add_argument("--targets", type=float, nargs="+", help="percent; default: CCC's three")
    args = parser.parse_args(argv)
    calibration = Calibration.load(args.calibration)
    names = {target: name for name, target in DIFFICULTIES.items()}
    print(f"{'target':>14} {'pairs':>6} {'min':>5} {'max':>5} {'mean':>6} {'median':>7}")
    for target in args.targets or DIFFICULTIES.values():
        found = lengths(calibration, target)
        label = f"{names.get(target, '')} {target:g} %".strip()
        print(
            f"{label:>14} {len(found):6} {min(found):5} {max(found):5} {mean(found):6.1f} "
            f"{median(found):7g}"
        )
    return 0
