"""`holdfast estimators`: evaluate estimates of accuracy and the alarms that follow from them."""

from argparse import ArgumentParser, Namespace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from ... import HoldfastError
from ...alarms import WINDOW
from .collapse import below
from .estimate_quality import alarm_quality, alarms, of_run
from .runs import Run, collect
from .text_table import formatted

EXAMPLE = "Add them, as in `holdfast suite aetta/estimators`."


def parser() -> ArgumentParser:
    """The subcommands and their options."""
    parser = ArgumentParser("holdfast estimators", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str) -> ArgumentParser:
        return commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")

    one = command(
        "warnings", "measure each estimator's delay and false alarms in detecting collapse"
    )
    one.add_argument("folder", type=Path, help="folder of a suite that includes the source model")

    one = command("quality", "measure R2, Spearman's rho, absolute error and coverage of estimates")
    one.add_argument("folder", type=Path, help="folder of runs with estimators and labels")

    one = command("fit", "fit f, which maps weighted flips to the source model's accuracy")
    one.add_argument("folders", type=Path, nargs="+", help="folders of suites with WeightedFlips")
    one.add_argument("--method", default="*", help="glob pattern of the method (default: all)")
    one.add_argument("--out", type=Path, required=True, help="JSON file for WeightedFlips(f=...)")

    one = command("agree", "estimate accuracy from the agreement of models (GDE, ALine)")
    one.add_argument("folders", type=Path, nargs="+", help="folders of runs or predictions")
    together = "treat all predictions as one ensemble of several base models"
    one.add_argument("--together", action="store_true", help=together)
    one.add_argument("--figure", type=Path, help="draw both lines on probit axes to this file")
    return parser


def main(argv: list[str]) -> None:
    """Run a subcommand."""
    args = parser().parse_args(argv)
    if args.command == "agree":
        from .agree import agree  # deferred: imports torch

        agree(args)
    else:
        {"warnings": warnings, "quality": quality, "fit": fit}[args.command](args)


def quality(args: Namespace) -> None:
    """Print one line per stream, method and estimator, with means over runs."""
    each = [
        {
            "stream": run.setting,
            "method": run.label,
            "estimator": name,
            **of_run(run, name)._asdict(),
        }
        for run in collect(args.folder)
        for name in run.estimators
        if f"{name}_error" in run.columns  # labels, and an estimate of the current batch
    ]
    if not each:
        raise HoldfastError(f"{args.folder} has no run with labels and an estimator. {EXAMPLE}")
    by = pd.DataFrame(each).groupby(["stream", "method", "estimator"])
    means, bands = by.mean(), by["bands"].sum()
    covered = zip(100 * means["coverage"], bands, strict=True)
    columns = {
        "runs": by.size().astype(str),
        "R2": means["r2"].map("{:.2f}".format),
        "rho": means["rho"].map("{:.2f}".format),
        "MAE": (100 * means["error"]).map("{:.1f}".format),
        "coverage": [f"{share:.0f} % of {n:,}" for share, n in covered],
        "mean width": (100 * means["width"]).map("{:.1f}".format),
    }
    print(formatted(pd.DataFrame(columns).reset_index().replace("^nan.*", "-", regex=True)))
    print("MAE and width are in points; the bands' nominal coverage is 95 % of the batches.")


def warnings(args: Namespace) -> None:
    """Print each estimator's delay and false alarms."""
    found = judged_alarms(collect(args.folder))
    if found.empty:
        raise HoldfastError(
            f"{args.folder} contains no adapting run with labels and an estimator beside a run of Source "
            f"on the same stream, of the same length. {EXAMPLE} Without labels, "
            f"`holdfast report {args.folder} --html FILE` draws estimates and alarms."
        )
    print(formatted(warnings_table(found)))


def judged_alarms(runs: list[Run], window: int = WINDOW) -> pd.DataFrame:
    """One row per adapting run, estimator and rule, with the entries of `AlarmQuality`.

    A run has collapsed where its accuracy is below the source model's on the same images.
    """
    rows = []
    for run in runs:
        reference = run.of_source("accuracy")
        if not run.adapts or run.accuracy is None or reference is None:
            continue
        collapsed = below(run.column("accuracy"), reference, window)
        for (name, rule), alarm in alarms(run, window).items():
            found = alarm_quality(collapsed, alarm, run.column("images"), window)
            names = {"method": run.label, "estimator": name, "alarm": rule}
            rows.append({**names, **found._asdict()})
    return pd.DataFrame(rows)


def warnings_table(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per method, rule and estimator, aggregated over streams and seeds."""
    sums = ["collapses", "delays", "false_alarms", "images"]
    table = judged.groupby(["method", "alarm", "estimator"])[sums].sum().reset_index()
    rates = 100_000 * table["false_alarms"] / table["images"].clip(lower=1)
    false = zip(table["false_alarms"], rates, strict=True)
    columns = {
        **{name: table[name] for name in ("method", "estimator", "alarm", "collapses")},
        "missed": table["collapses"] - table["delays"].map(len),
        "median delay": [f"{np.median(d):+,.0f} images" if d else "-" for d in table["delays"]],
        "false alarms": [f"{n} ({rate:.1f} per 100,000 images)" for n, rate in false],
    }
    return pd.DataFrame(columns).astype(str)


def fit(args: Namespace) -> None:
    """Fit f to the runs of a suite, print the quality of the fit, and write the file."""
    from .flip_points import fit_points, points_of  # deferred: imports torch

    runs = collect(*args.folders)
    found = points_of(run for run in runs if fnmatchcase(run.label, args.method))
    f = fit_points(found)
    f.save(args.out)
    terms = ", ".join(f"{c:.6g}" for c in f.coefficients)
    error = np.mean([abs(f(p.flips[f.weighted]) - p.accuracy) for p in found])
    print(f"{args.out}: coefficients {terms} (highest degree first),")
    print(f"fitted to {len(found)} streams; mean absolute error on them: {100 * error:.2f} points")
