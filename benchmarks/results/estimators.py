"""`holdfast estimators`: evaluate estimates of accuracy and the alarms that follow from them."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ... import HoldfastError
from ...alarms import WINDOW, BelowSource, Drop, raised
from ...run_folder import ALARM, OUTPUTS
from .collapse import Array, below, intervals
from .runs import Run, collect
from .text_table import formatted

_EXAMPLE = "Add them, as in `holdfast suite aetta/estimators`."
_AVERAGED = 5  # batches averaged for R2 and rho
ONLINE = "online"  # the rule name of alarms raised during the run


def parser() -> ArgumentParser:
    parser = ArgumentParser("holdfast estimators", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str) -> Callable[..., Action]:
        description = f"{about[0].upper()}{about[1:]}."
        return commands.add_parser(name, help=about, description=description).add_argument

    add = command("warnings", "measure each estimator's delay and false alarms for collapses")
    add("folder", type=Path, help="folder of a suite that includes the source model")

    add = command("quality", "measure R2, Spearman's rho, absolute error and coverage of estimates")
    add("folder", type=Path, help="folder of runs with estimators and labels")

    add = command("fit", "fit f, which maps weighted flips to the source model's accuracy")
    add("folders", type=Path, nargs="+", help="folders of suites with WeightedFlips")
    add("--method", default="*", help="glob pattern of the method (default: all)")
    add("--out", type=Path, required=True, help="JSON file for WeightedFlips(f=...)")

    add = command("agree", "estimate accuracy from the agreement of models (GDE, ALine)")
    add("folders", type=Path, nargs="+", help="folders of runs or predictions")
    together = "treat all predictions as one ensemble of several base models"
    add("--together", action="store_true", help=together)
    add("--figure", type=Path, help="draw both lines on probit axes to this file")
    return parser


def main(argv: list[str]) -> None:
    args = parser().parse_args(argv)
    {"warnings": _warnings, "quality": _qualities, "fit": _fit, "agree": _agree}[args.command](args)


def _qualities(args: Namespace) -> None:
    """Print one line per stream, method and estimator, with means over runs."""
    names, each = ["stream", "method", "estimator"], []
    for run in collect(args.folder):
        for name in run.estimators:
            if f"{name}_error" in run.columns:  # labels, and an estimate of the current batch
                compared = map(run.column, (name, "accuracy", f"{name}_low", f"{name}_high"))
                each.append((run.setting, run.label, name, *quality(*compared)))
    if not each:
        raise HoldfastError(f"{args.folder} has no run with labels and an estimator. {_EXAMPLE}")
    by = pd.DataFrame(each, columns=[*names, *Quality._fields]).groupby(names)
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


def _warnings(args: Namespace) -> None:
    """Print each estimator's delay and false alarms."""
    judged = judged_alarms(collect(args.folder))
    if judged.empty:
        raise HoldfastError(
            f"{args.folder} contains no adapting run with labels and an estimator beside a run of Source "
            f"on the same stream, of the same length. {_EXAMPLE} Without labels, "
            f"`holdfast report {args.folder} --html FILE` draws estimates and alarms."
        )
    print(formatted(warnings_table(judged)))


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
            judged = alarm_quality(collapsed, alarm, run.column("images"), window)
            rows.append((run.label, name, rule, *judged))
    columns = ["method", "estimator", "alarm", *AlarmQuality._fields]
    return pd.DataFrame(rows, columns=columns)


def warnings_table(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per method, rule and estimator, aggregated over streams and seeds."""
    sums = ["collapses", "delays", "false_alarms", "images"]
    table = judged.groupby(["method", "alarm", "estimator"])[sums].sum().reset_index()
    rates = 100_000 * table["false_alarms"] / table["images"].clip(lower=1)
    false = zip(table["false_alarms"], rates, strict=True)
    shown = table[["method", "estimator", "alarm", "collapses"]].copy()
    shown["missed"] = table["collapses"] - table["delays"].map(len)
    delays = [f"{np.median(d):+,.0f} images" if d else "-" for d in table["delays"]]
    shown["median delay"] = delays
    shown["false alarms"] = [f"{n} ({rate:.1f} per 100,000 images)" for n, rate in false]
    return shown.astype(str)


def _fit(args: Namespace) -> None:
    """Fit f to the runs of a suite, print the quality of the fit, and write the file."""
    from .flip_points import fit_points, points_of  # deferred: imports torch

    runs = collect(*args.folders)
    points = points_of(run for run in runs if fnmatchcase(run.label, args.method))
    f = fit_points(points)
    f.save(args.out)
    terms = ", ".join(f"{c:.6g}" for c in f.coefficients)
    error = np.mean([abs(f(p.flips[f.weighted]) - p.accuracy) for p in points])
    print(f"{args.out}: coefficients {terms} (highest degree first),")
    print(f"fitted to {len(points)} streams; mean absolute error on them: {100 * error:.2f} points")


def _agree(args: Namespace) -> None:
    """Print the estimates for each model on each stream, and their errors for each stream."""
    # Deferred: they import torch.
    from .model_agreement import TRUSTED, draw, estimate, from_folders, from_runs, points

    ensembles = [*from_runs(args.folders), *from_folders(args.folders, args.together)]
    if not ensembles:
        raise HoldfastError(
            f"Found neither two runs on the same images with {OUTPUTS} nor a folder with the "
            "predictions of two models. Pass folders of runs of different models with the same "
            "DatasetEstimates (adapting: true for adapting methods), of an ensemble, or of npz files."
        )
    results = list(map(estimate, ensembles))
    if args.figure:
        names = [result.models.stream.replace("/", "\n", 1) for result in results]
        panels = dict(zip(names, map(points, results), strict=True))
        print(f"{draw(panels, args.figure)}: both lines")
    tables = [result.table for result in results]
    print("Accuracy of each model and its estimates, in percent")
    print(formatted(pd.concat(tables).map(_as_text)))
    print("\nMean absolute errors over the models, in points, and lines on probit axes")
    errors = []
    for result, table in zip(results, tables, strict=True):
        row = dict(table.iloc[0][["stream", "seed", "measure"]])
        row |= dict(table[[*result.estimates]].sub(table["accuracy"], axis=0).abs().mean())
        row["accuracy line"] = str(result.accuracy_line or "-")
        row["agreement line"] = str(result.agreement_line or "-")
        row["agreement - accuracy, source"] = result.excess
        errors.append(row)
    print(formatted(pd.DataFrame(errors).map(_as_text)))
    trusted = sum(result.r2 > TRUSTED for result in results)
    print(
        f"\nALine is reliable where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(results)})\nand the models' agreement on source data does not exceed their accuracy."
    )


def _as_text(value: Any) -> str:
    """A share in percent with two decimals, "-" if unknown; anything else as it is."""
    if pd.isna(value):
        return "-"
    return f"{100 * value:.2f}" if isinstance(value, float) else str(value)


class Quality(NamedTuple):
    """Measures of how well estimates match the true accuracy; NaN if they cannot be computed."""

    r2: float  # squared correlation over windows
    rho: float  # Spearman's, over windows
    error: float  # mean |estimate - accuracy| over batches
    coverage: float  # share of batches whose accuracy lies within the band
    bands: int  # number of batches with a band
    width: float  # mean width of the bands


def quality(estimates: Array, truth: Array, low: Array, high: Array) -> Quality:
    """Compare estimates [n] and bands from `low` [n] to `high` [n], NaN where missing, with `truth` [n]."""
    table = pd.DataFrame({"estimate": estimates, "truth": truth, "low": low, "high": high})
    table = table.dropna(subset=["estimate", "truth"])
    errors = (table["estimate"] - table["truth"]).abs()
    banded = table.dropna(subset="low")
    inside = banded["truth"].between(banded["low"], banded["high"])
    width = banded["high"] - banded["low"]
    whole = table[["estimate", "truth"]].iloc[: len(table) // _AVERAGED * _AVERAGED]
    means = whole.groupby(np.arange(len(whole)) // _AVERAGED).mean()
    r2 = rho = np.nan
    if len(means) > 2 and np.ptp(means, axis=0).all():
        r2 = means["estimate"].corr(means["truth"]) ** 2
        rho = means["estimate"].corr(means["truth"], method="spearman")
    return Quality(r2, rho, errors.mean(), inside.mean(), len(banded), width.mean())


def alarms(run: Run, window: int = WINDOW) -> dict[tuple[str, str], Array]:
    """Flags [n] of the batches with an alarm, by estimator and rule; needs no labels.

    "drop" is AETTA's rule for a reset; "below source" compares with the same estimator on the frozen source
    model, if available; "online" contains the alarms that an `Alarm` or a monitor recorded.
    """
    fresh, not_finite = (run.column(name) > 0 for name in ("reset", "not_finite"))
    flags = {}
    for name in run.estimators:
        values, source = run.column(name), run.of_source(name)
        flags[name, "drop"] = raised(Drop(), values, None, fresh, not_finite)
        if source is not None and not np.isnan(source).all():
            rule = BelowSource(window)
            flags[name, "below source"] = raised(rule, values, source, fresh, not_finite)
    for column in (name for name in run.columns if name.endswith(ALARM)):
        flags[column.removesuffix(ALARM), ONLINE] = run.column(column) > 0
    return flags


class AlarmQuality(NamedTuple):
    """The quality of an alarm on one run."""

    collapses: int
    # Images from each detected collapse to its alarm; negative if the alarm came first.
    delays: list[int]
    false_alarms: int
    images: int


def alarm_quality(
    collapsed: Array, alarm: Array, images: Array, window: int = WINDOW
) -> AlarmQuality:
    """Compare alarms [n] with true collapses [n]; `images` [n] is the number of images after each batch.

    A collapse is an interval of at least `window` batches. It is detected by the first alarm that starts
    during it or up to `window` batches before. Alarms that start at any other time are false, so an alarm
    that is always active detects nothing.
    """
    collapses, alarms = intervals(collapsed, window), intervals(alarm)
    delays, true = [], set()
    for collapse in collapses:
        heard = [a for a in alarms if collapse.first - window <= a.first <= collapse.last]
        true |= set(heard)
        if heard:
            delays.append(int(images[heard[0].first] - images[collapse.first]))
    return AlarmQuality(len(collapses), delays, len(alarms) - len(true), int(images[-1]))
