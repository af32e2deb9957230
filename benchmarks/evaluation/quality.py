"""Measure the quality of estimates from run records: R2, Spearman's rho, mean absolute error, coverage."""

from pathlib import Path

from ... import HoldfastError
from ...command_parser import Parser
from ..results.estimate_quality import WINDOW, of_batches, of_runs
from ..results.runs import Run, collect, grouped
from ..results.text_table import aligned


def table(runs: list[Run], window: int = WINDOW) -> str:
    """One line per stream, method and estimator, with means over runs."""
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
    parser.add("folder", type=Path, help="folder of a suite or run with estimators and labels")
    parser.add(
        "--window", type=int, default=WINDOW, help="batches averaged for R2 and rho (default: 5)"
    )
    return parser


def main(argv: list[str]) -> int:
    """Print the table."""
    args = parser().parse_args(argv)
    if args.window < 1:
        raise HoldfastError(f"--window must be at least 1, not {args.window}.")
    runs = [run for run in collect(args.folder) if run.estimators and run.accuracy is not None]
    if not runs:
        raise HoldfastError(
            f"{args.folder} has no run with labels and an estimator. Add one, as in `holdfast suite "
            "aetta/estimators --scale quick`."
        )
    print(table(runs, args.window))
    print("MAE and width are in points; the bands' nominal coverage is 95 % of the batches.")
    return 0
