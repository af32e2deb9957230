"""RDumb and CCC: the tables of Press et al. 2023, numbered as in chapter 2 of Ori Press's thesis."""

from pathlib import Path
from typing import Any

import pandas as pd

from ...alarms import WINDOW
from ...drawing import describe, panels, saved
from ..results.collapse import below, intervals
from ..results.figure import method_colour
from ..results.runs import Run
from ..suites.cell import Cell
from .accuracy_tables import accuracy, by_rate, sorted_by
from .claims import among, besides
from .experiment import experiment
from .table import ALL, LAST, MOST_OF, REST, Rows, Table, tidy

METHODS = ["Source", "BNAdapt", "Tent", "RPL", "SLR", "SLR-SGD"]
METHODS += ["CPL", "CoTTA", "EATA", "ETA", "RDumb"]
COLLAPSING = ["Tent", "RPL", "SLR", "CPL", "CoTTA"]
CCC = ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
THIRD, FOURTH = slice(2, 3), slice(3, 4)
Runs = list[Run]


# On photographs there is one difficulty.
ON_CCC, HARDER = among(*CCC), among(*CCC[1:])


main_table = experiment("rdumb/T2.1")(accuracy, order=METHODS, average=True)
main_table.says("collapse").above("Source", COLLAPSING, each=ON_CCC)
main_table.says("eta-collapse").above("Source", "ETA", each=HARDER)
main_table.says("above-source").above(["EATA", "RDumb"], "Source", each=ALL)
main_table.says("best").above("RDumb", ["Source", "BNAdapt", *COLLAPSING, "EATA", "ETA"], each=ALL)
for id, one, other, x, size in (
    ("above-bn-by-eleven", "RDumb", "BNAdapt", "CCC-Medium", 11.0),
    ("above-eata-on-cin-c", "RDumb", "EATA", "CIN-C", 4.7),
    ("eta-above-eata-on-cin-c", "ETA", "EATA", "CIN-C", 2.0),
):
    main_table.says(id, at_full={"by": MOST_OF * size}).above(one, other, x=x)

runs27 = experiment("rdumb/runs27")(
    accuracy, panel="setting", x="speed", order=METHODS, axis="images for each pair of severities"
)
runs27.says("rdumb-above-eata").above("RDumb", "EATA")

first_version = experiment("rdumb/F1")(accuracy, order=METHODS, average=True)
first_version.says("rdumb-above-eata").above("RDumb", "EATA", each=ALL)

experiment("rdumb/holdout")(by_rate)
experiment("rdumb/network-rates")(by_rate, panel="backbone")
experiment("rdumb/cifar10-rates")(by_rate)

ten_classes = experiment("rdumb/cifar10")(accuracy, order=METHODS, average=True)
ten_classes.says("tent-above-source").above("Tent", "Source", x="CIN-C")
ten_classes.says("rdumb-above-eata").above("RDumb", "EATA", each=ALL)
ten_classes.says("few-collapse").above([*COLLAPSING, "ETA"], "Source", each=ALL)

largest_rates = experiment("rdumb/rates")(
    accuracy, curve="method", x="override", order=METHODS, renamed={"": "best"}
)
largest_rates.says("same-order").above("RDumb", ["Tent", "RPL", "CPL"], x="best", than_x="largest")

for name, each in (("rdumb/T2.2", ALL), ("rdumb/T2.3", None)):
    networks = experiment(name)(
        accuracy, curve="method", x="override", order=METHODS, renamed={"": "width16"}
    )
    networks.says("rdumb-above-eata").above("RDumb", "EATA")
    networks.says("rdumb-above-source").above("RDumb", "Source", each=each)

interval = experiment("rdumb/T2.4")(
    accuracy, curve="method", x="every", axis="steps between resets"
)
interval.says("shortest-worst").rises("RDumb", to=REST)
interval.says("optimum").rises("RDumb", start=[slice(3), slice(4, None)], to=FOURTH)
interval.says("plateau").near("RDumb", x=slice(2, None), within=1)

# The paper's numbers are means over all of CCC.
MEAN = "CCC"
entropy_threshold = experiment("rdumb/T2.5")(
    accuracy,
    panel="setting",
    curve="method",
    x="entropy_factor",
    axis="entropy threshold, factor of ln(classes)",
    pooled={MEAN: CCC},
)
entropy_threshold.says("rdumb-above-eata-but-once").above("RDumb", "EATA", MEAN, each=besides(0.6))
benefits = entropy_threshold.says("rdumb-benefits").rises("RDumb", MEAN, start=0.4, to=[0.2, 0.3])
benefits.rises("EATA", MEAN, start=[0.2, 0.3], to=0.4)
entropy_threshold.says("rdumb-stable").near("RDumb", panel=MEAN, x=slice(4), within=2)
collapse = entropy_threshold.says("eata-collapse").above(
    "EATA", "EATA", MEAN, 0.4, than_x=0.7, share=4
)
collapse.above("RDumb", "RDumb", MEAN, 0.7, than_x=0.4, share=0.25)

WEIGHTS: dict[str, Any] = {"curve": "method", "x": "beta", "axis": "weight of the regulariser"}
# The embedded weights, times the learning rate, are the paper's.
PRINTED = {3.125: 25, 6.25: 50, 12.5: 100, 31.25: 250, 62.5: 500, 125: 1000, 187.5: 1500, 250: 2000}
regulariser = experiment("rdumb/TA.2")(accuracy, **WEIGHTS, renamed=PRINTED)
regulariser.says("optimum").rises("EATA", start=[slice(2), slice(3, None)], to=THIRD)
regulariser.says("third-best").rises("EATA", start=LAST, to=THIRD)
regulariser.says("more-is-worse").falls_along("EATA", x=slice(2, None))

two_regularisers = experiment("rdumb/TA.3")(
    accuracy,
    curve="method",
    order=["EATA-100", "EATA", "RDumb"],
    average={"CCC Avg": CCC},
)
two_regularisers.says("better-on-cin-c").above("EATA-100", "EATA", x="CIN-C")
two_regularisers.says("worse-on-ccc").above("EATA", "EATA-100", x=CCC)
two_regularisers.says("rdumb-best").above("RDumb", ["EATA-100", "EATA"], each=CCC)

regulariser_without_bn = experiment("rdumb/TA.4")(
    accuracy, **WEIGHTS, renamed={2500: 2000, 3750: 3000, 5000: 4000}
)
regulariser_without_bn.says("falls").falls_along("EATA")


LASTS, TO_THE_END = "images until the collapse, thousands", "above it to the end, %"


def draw_survival(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw one panel per method, with a 95 % band (log-log) if some runs have collapsed."""
    methods = t.curves(LASTS)
    figure, axes = panels(len(methods), 5, size=(11, 4.6), sharex=True, sharey=True)
    for ax, method in zip(axes, methods, strict=True):
        colour, own = method_colour(method.partition("-")[0]), kaplan_meier(t, method)
        ax.step([0, *own.quantiles], [1, *own.probabilities], where="post", color=colour, lw=1.6)
        # Without an event there is no band.
        if own.probabilities[-1] < 1:
            band = own.confidence_interval(0.95, method="log-log")
            low, high = band.low.probabilities, band.high.probabilities
            style: dict[str, Any] = {"step": "post", "color": colour, "alpha": 0.18, "lw": 0}
            ax.fill_between(own.quantiles, low, high, **style)
        ax.set_ylim(-0.03, 1.03)
        describe(ax, f"{method} ({len(t.by_run(LASTS, method))} runs)")
    figure.supxlabel("images seen, thousands", fontsize=9)
    figure.supylabel("runs still above the source model, share", fontsize=9)
    return saved(figure, path)


def kaplan_meier(t: Table, method: str) -> Any:
    """The estimate over all runs of a method (Kaplan & Meier 1958), as scipy's empirical distribution."""
    from scipy.stats import CensoredData, ecdf  # deferred: slow import

    images, ended = (t.by_run(panel, method) for panel in (LASTS, TO_THE_END))
    fell = [images[run] for run in images if not ended[run]]
    return ecdf(CensoredData(fell, right=[images[run] for run in images if ended[run]])).sf


@experiment("rdumb/survival", picture=draw_survival)
def survival(runs: Runs) -> pd.DataFrame:
    """share of runs that are still above the source model, by images seen (Kaplan-Meier)"""
    rows: Rows = []
    for run in sorted_by([run for run in runs if run.adapts], "label", METHODS):
        if (reference := run.of_source("accuracy")) is not None:
            # The batch at which it first falls below for WINDOW batches.
            found = intervals(below(run.column("accuracy"), reference), WINDOW)
            at = found[0].first if found else None
            images = run.rows[-1 if at is None else at]["images"]
            rows.append((LASTS, run.label, run.setting, run.place, images / 1000))
            rows.append((TO_THE_END, run.label, run.setting, run.place, 100.0 * (at is None)))
    return tidy(rows, unit="of a run against the source model on the same images")


survival.says("outlasts").above("RDumb", [*COLLAPSING, "ETA"], LASTS)
survival.says("eata-outlasts").above("EATA", [*COLLAPSING, "ETA"], LASTS)
survival.says("never").share_above("RDumb", 0.5, TO_THE_END)
survival.says("eata-never").share_above("EATA", 0.5, TO_THE_END)
