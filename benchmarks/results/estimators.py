"""`holdfast estimators`: evaluate estimates of accuracy and the alarms that follow from them."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from ... import HoldfastError
from ...alarms import WINDOW as ALARM_WINDOW
from .collapse import below, intervals
from .estimate_quality import alarm_quality, alarms, of_run
from .run_statistics import last_eighth, mean
from .runs import Run, collect
from .text_table import formatted, points

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
    one.add_argument("--streams", default="*", help="glob pattern of stream names (default: all)")
    one.add_argument("--method", default="*", help="glob pattern of the method (default: all)")
    one.add_argument("--degree", type=int, default=2, choices=(1, 2, 3), help="default: 2")
    one.add_argument("--unweighted", action="store_true", help="fit to unweighted flips")
    one.add_argument("--out", type=Path, required=True, help="JSON file for WeightedFlips(f=...)")

    one = command("agree", "estimate accuracy from the agreement of models (GDE, ALine)")
    one.add_argument("folders", type=Path, nargs="+", help="folders of runs or predictions")
    together = "treat all predictions as one ensemble of several base models"
    one.add_argument("--together", action="store_true", help=together)
    one.add_argument("--figure", type=Path, help="draw both lines on probit axes to this file")
    one.add_argument("--json", action="store_true", help="print all estimates as JSON")
    return parser


def main(argv: list[str]) -> None:
    """Run a subcommand."""
    args = parser().parse_args(argv)
    {"warnings": warnings, "quality": quality, "fit": fit, "agree": agree}[args.command](args)


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
    """Print each estimator's delay and false alarms; of runs without labels, their estimates."""
    runs = collect(args.folder)
    found = judged_alarms(runs)
    if len(found):
        print(formatted(warnings_table(found)))
    elif unlabelled := [run for run in runs if run.estimators and run.accuracy is None]:
        print("The runs have no labels to evaluate alarms. Estimated accuracy in percent:")
        print(formatted(estimates_table(unlabelled)))
    else:
        raise HoldfastError(
            f"{args.folder} contains no adapting run with an estimator beside a run of Source on the same "
            f"stream, of the same length. {EXAMPLE}"
        )


def judged_alarms(runs: list[Run], window: int = ALARM_WINDOW) -> pd.DataFrame:
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


def estimates_table(runs: list[Run]) -> pd.DataFrame:
    """Mean estimates in percent and the alarms of unlabelled runs."""
    rows = []
    for run in runs:
        found = alarms(run) if run.adapts else {}
        for name in run.estimators:
            values = run.column(name)
            row = {"method": run.label, "estimator": name, "estimate": points(mean(values))}
            row["last eighth"] = points(mean(last_eighth(values)))
            for rule in ("drop", "below source"):
                row[f"alarms: {rule}"] = when_raised(run, found.get((name, rule)))
            rows.append(row)
    return pd.DataFrame(rows)


def when_raised(run: Run, alarm: np.ndarray | None) -> str:
    """The number of alarms, and the image count at which the first one began."""
    if alarm is None:
        return "-"
    if not (found := intervals(alarm)):
        return "0"
    return f"{len(found)}, first after {run.rows[found[0].first]['images']:,} images"


def agree(args: Namespace) -> None:
    """Print estimates from the agreement of models."""
    from .agree import agree  # deferred: imports torch

    agree(args)


def fit(args: Namespace) -> None:
    """Fit f to the runs of a suite, print the quality of the fit, and write the file."""
    from .flip_points import find_points, fit_points  # deferred: imports torch

    found = find_points(args.folders, args.streams, args.method)
    f = fit_points(found, args.degree, not args.unweighted)
    f.save(args.out)
    terms = ", ".join(f"{c:.6g}" for c in f.coefficients)
    error = np.mean([abs(f(p.flips[f.weighted]) - p.accuracy) for p in found])
    print(f"{args.out}: coefficients {terms} (highest degree first),")
    print(f"fitted to {len(found)} streams; mean absolute error on them: {100 * error:.2f} points")
