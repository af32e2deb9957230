"""How good are estimates? R2, Spearman's rho, mean absolute error, coverage of bands; from records."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...command_parser import Parser
from ..results.runs import Run, collect, grouped
from ..results.text import aligned

Array = np.ndarray
WINDOW = 5  # batches that are averaged for R2 and rho


class Quality(NamedTuple):
    """Of estimates beside the true accuracy; NaN where there is nothing to compute it from."""

    r2: float  # squared correlation over windows
    rho: float  # Spearman's, over windows
    error: float  # mean |estimate - accuracy| over batches
    coverage: float  # share of batches whose accuracy lies within the band
    bands: int  # batches that have one
    width: float  # mean of the bands


def quality(
    estimates: Array, truth: Array, low: Array, high: Array, window: int = WINDOW
) -> Quality:
    """Of estimates [n], accuracies [n] and the ends [n] of bands, NaN where there is none."""
    known = ~np.isnan(estimates) & ~np.isnan(truth)
    error = float(np.abs(estimates - truth)[known].mean()) if known.any() else np.nan
    banded = known & ~np.isnan(low)
    inside = (low <= truth) & (truth <= high)
    coverage, width = (
        float(v[banded].mean()) if banded.any() else np.nan for v in (inside, high - low)
    )
    own, true = means(estimates[known], window), means(truth[known], window)
    r2 = rho = np.nan
    if len(own) > 2 and np.ptp(own) and np.ptp(true):
        from scipy.stats import spearmanr  # here: it takes its time to import

        r2, rho = float(np.corrcoef(own, true)[0, 1] ** 2), float(spearmanr(own, true).statistic)
    return Quality(r2, rho, error, coverage, int(banded.sum()), width)


def means(values: Array, window: int) -> Array:
    """Of consecutive windows; what is left at the end is left out."""
    return values[: len(values) // window * window].reshape(-1, window).mean(1)


def of_runs(runs: list[Run], name: str, window: int) -> Quality:
    """The mean over runs of each number."""
    columns = ("", "_low", "_high")
    each = [
        quality(own, run.column("accuracy"), low, high, window)
        for run in runs
        for own, low, high in [[run.column(name + end) for end in columns]]
    ]
    found = [np.array(v, dtype=float) for v in zip(*each, strict=True)]
    known = [v[~np.isnan(v)] for v in found]
    r2, rho, error, coverage, bands, width = (float(v.mean()) if len(v) else np.nan for v in known)
    return Quality(r2, rho, error, coverage, int(bands * len(each)), width)


def of_batches(run: Run) -> list[str]:
    """Estimators of the current batch: they have an error per batch."""
    known = {key for row in run.rows for key in row}
    return [name for name in run.estimators if f"{name}_error" in known]


def table(runs: list[Run], window: int = WINDOW) -> str:
    """One line for each stream, method and estimator; the numbers are means over runs."""
    lines: list[tuple[str, ...]] = [
        ("stream", "method", "estimator", "runs", "R2", "rho", "MAE", "coverage", "mean width")
    ]
    groups = grouped(runs, lambda run: (run.setting, run.label, run.override))
    for (setting, label, _), same in sorted(groups.items()):
        for name in dict.fromkeys(name for run in same for name in of_batches(run)):
            found = of_runs(same, name, window)
            numbers = [f"{v:.2f}" for v in (found.r2, found.rho)]
            numbers += [
                f"{100 * found.error:.1f}",
                f"{100 * found.coverage:.0f} % of {found.bands:,}",
            ]
            numbers += [f"{100 * found.width:.1f}"]
            shown = ["-" if n.startswith("nan") else n for n in numbers]
            lines.append((setting, label, name, str(len(same)), *shown))
    return aligned(lines)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators quality", __doc__, "runs/estimators-glyphs")
    parser.add("folder", type=Path, help="of a suite or run with estimators and labels")
    parser.add(
        "--window", type=int, default=WINDOW, help="batches averaged for R2 and rho (default: 5)"
    )
    return parser


def main(argv: list[str]) -> int:
    """Print the table."""
    args = parser().parse_args(argv)
    if args.window < 1:
        raise HoldfastError("--window must be at least 1.")
    runs = [run for run in collect(args.folder) if run.estimators and run.accuracy is not None]
    if not runs:
        raise HoldfastError(
            f"{args.folder} has no run with labels and an estimator. Add one, as in `holdfast suite "
            "estimators-glyphs`."
        )
    print(table(runs, args.window))
    print("MAE and width are points; bands are meant to cover 95 % of the batches.")
    return 0
