"""RDumb and CCC: the tables of Press et al. 2023, numbered as in chapter 2 of Ori Press's thesis."""

from pathlib import Path
from typing import Any

import pandas as pd

from ...alarms import WINDOW
from ...drawing import describe, panels, saved
from ..results.collapse import Array, below, intervals
from ..results.palette import method_colour
from ..results.run_statistics import paired
from ..results.runs import Run
from ..suites.cell import Cell
from . import walks
from .accuracy_tables import accuracy, by_rate, sorted_by
from .claims import Part, Parts
from .experiment import EMBEDDED, experiment
from .table import ALL, LAST, REST, Table, tidy

METHODS = [
    "Source",
    "BNAdapt",
    "Tent",
    "RPL",
    "SLR",
    "SLR-SGD",
    "CPL",
    "CoTTA",
    "EATA",
    "ETA",
    "RDumb",
]
COLLAPSING = ["Tent", "RPL", "SLR", "CPL", "CoTTA"]
CCC = ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
BOTH = ["rdumb/cin-c", "rdumb/ccc"]
THIRD, FOURTH = slice(2, 3), slice(3, 4)
Runs = list[Run]


@experiment("rdumb/holdout", "rdumb/rates")
def holdout(runs: Runs) -> pd.DataFrame:
    """each adapting method on the hold-out corruptions by its learning rate"""
    return by_rate(runs)


@experiment("rdumb/runs27", "rdumb/ccc")
def runs27(runs: Runs) -> pd.DataFrame:
    """the 27 runs: each method by difficulty and speed"""
    axis = "images for each pair of severities"
    return accuracy(runs, panel="setting", x="speed", order=METHODS, axis=axis)


runs27.says("rdumb-above-eata").above("RDumb", "EATA")


@experiment(
    "rdumb/T2.1", BOTH, full=["rdumb/cin-c", "rdumb/cin-3dcc", "rdumb/ccc"], published="T2.1"
)
def main_table(runs: Runs) -> pd.DataFrame:
    """ten methods on CIN-C, CIN-3DCC and CCC easy, medium, hard; mean ± sd and the average"""
    return accuracy(runs, order=METHODS, average=True)


main_table.says("collapse").above("Source", COLLAPSING, each=CCC)
main_table.says("eta-collapse").above("Source", "ETA", each=CCC[1:])
main_table.says("above-source").above(["EATA", "RDumb"], "Source", each=ALL)
main_table.says("best").above("RDumb", ["Source", "BNAdapt", *COLLAPSING, "EATA", "ETA"], each=ALL)
main_table.says("above-bn-by-eleven").above("RDumb", "BNAdapt", x="CCC-Medium", by=11)
main_table.says("above-eata-on-cin-c").above("RDumb", "EATA", x="CIN-C", by=4.7)
main_table.threshold("above-bn").above("RDumb", "BNAdapt", x="CCC-Medium", by=4)


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


@experiment("rdumb/survival", "rdumb/ccc", picture=draw_survival, points=False)
def survival(runs: Runs) -> pd.DataFrame:
    """share of runs that are still above the source model, by images seen (Kaplan-Meier)"""
    rows: list[tuple[Any, ...]] = []
    for run in sorted_by([run for run in runs if run.adapts], "label", METHODS):
        if (reference := run.of_source("accuracy")) is not None:
            at = collapse(run.column("accuracy"), reference)
            images = run.rows[-1 if at is None else at]["images"]
            rows.append((LASTS, run.label, run.setting, run.place, images / 1000))
            rows.append((TO_THE_END, run.label, run.setting, run.place, 100.0 * (at is None)))
    return tidy(rows, unit="of a run against the source model on the same images")


def collapse(values: Array, reference: Array) -> int | None:
    """The batch at which accuracies [n] first fall `below` a reference for WINDOW batches, or None."""
    found = intervals(below(values, reference), WINDOW)
    return found[0].first if found else None


for method, prefix in {"RDumb": "", "EATA": "eata-"}.items():
    survival.says(f"{prefix}outlasts").above(method, [*COLLAPSING, "ETA"], LASTS)
for method, prefix in {"RDumb": "", "EATA": "eata-"}.items():
    survival.threshold(f"{prefix}never").share_above(method, 0.5, TO_THE_END)


@experiment("rdumb/rates", "rdumb/largest-rates", scale=EMBEDDED, setting="CCC-Medium")
def largest_rates(runs: Runs) -> pd.DataFrame:
    """methods on embedded CCC-Medium with the best learning rate of the hold-out and with the largest"""
    return accuracy(runs, curve="method", x="override", order=METHODS, renamed={"": "best"})


@largest_rates.ours("same-order")
def above_largest(t: Table) -> Parts:
    """RDumb with its rate minus others with their largest."""
    for other in ("Tent", "RPL", "CPL"):
        gap = paired(t.values("", "RDumb", "best"), t.values("", other, "largest"))
        yield Part(f"RDumb - {other}, largest", gap, 0)


def by_network(runs: Runs) -> pd.DataFrame:
    """Accuracy by network; the first is the one without an override."""
    renamed = {"": "width16"}
    return accuracy(runs, curve="method", x="override", order=METHODS, renamed=renamed)


@experiment("rdumb/T2.2", "rdumb/backbones", setting="CCC-Medium", published="T2.2")
def networks_on_medium(runs: Runs) -> pd.DataFrame:
    """source model, EATA and RDumb with several networks on CCC-Medium"""
    return by_network(runs)


@experiment("rdumb/T2.3", "rdumb/backbones", setting="CCC-Hard", published="T2.3")
def networks_on_hard(runs: Runs) -> pd.DataFrame:
    """source model, EATA and RDumb with several networks on CCC-Hard"""
    return by_network(runs)


for own, each in ((networks_on_medium, ALL), (networks_on_hard, None)):
    own.says("rdumb-above-eata").above("RDumb", "EATA")
    own.says("rdumb-above-source").above("RDumb", "Source", each=each)
    # With seven of the paper's nine networks; by 0.25 points below with two.
    own.says("rdumb-above-eata-each").above("RDumb", "EATA", each=ALL)


@experiment("rdumb/T2.4", "rdumb/interval", published="T2.4")
def interval(runs: Runs) -> pd.DataFrame:
    """RDumb on the hold-out corruptions by the steps between resets"""
    return accuracy(runs, curve="method", x="every", axis="steps between resets")


interval.says("shortest-worst").rises("RDumb", to=REST)
interval.says("optimum").rises("RDumb", start=[slice(3), slice(4, None)], to=FOURTH)
interval.threshold("plateau").near("RDumb", x=slice(3, None), to=THIRD, within=1)


# The paper's numbers are means over all of CCC.
@experiment("rdumb/T2.5", "rdumb/entropy", published="T2.5", at_full={"pooled": {"": CCC}})
def entropy_threshold(runs: Runs, pooled: dict[str, list[str]] | None = None) -> pd.DataFrame:
    """EATA and RDumb over all of CCC by the entropy threshold"""
    axis = "entropy threshold, factor of ln(classes)"
    names = {"curve": "method", "x": "entropy_factor", "panel": "setting"}
    return accuracy(runs, **names, axis=axis, pooled=pooled)


entropy_threshold.says("rdumb-above-eata-each").above("RDumb", "EATA", each=ALL)
entropy_threshold.threshold("rdumb-above-eata").above(
    "RDumb", "EATA", each=lambda xs: [x for x in xs if x <= 0.5]
)
entropy_threshold.threshold("eata-collapse").falls("EATA", start=0.4, to=0.7, by=10)
entropy_threshold.threshold("rdumb-stable").near("RDumb", x=[0.1, 0.2, 0.3], to=0.4, within=2)


@experiment("rdumb/TA.1", "rdumb/ccc", takes="cells", published="TA.1")
def walk_lengths(cells: list[Cell]) -> pd.DataFrame:
    """lengths of CCC's walks between two corruptions"""
    return walks.lengths_of_walks(cells)


walk_lengths.says("harder-longer").ordered(CCC[::-1], x="mean")


def by_weight(runs: Runs) -> pd.DataFrame:
    """Accuracy by EATA's beta."""
    return accuracy(runs, curve="method", x="beta", axis="weight of the regulariser")


@experiment("rdumb/TA.2", "rdumb/beta", published="TA.2")
def regulariser(runs: Runs) -> pd.DataFrame:
    """EATA on the hold-out corruptions by the weight of its regulariser"""
    return by_weight(runs)


regulariser.says("optimum").rises("EATA", start=[slice(2), slice(3, None)], to=THIRD)
regulariser.says("third-best").rises("EATA", start=LAST, to=THIRD)
regulariser.says("more-is-worse").falls_along("EATA", x=slice(2, None))


@experiment(
    "rdumb/TA.3",
    ["rdumb/eata100-cin-c", "rdumb/eata100-ccc"],
    method=["EATA-100", "EATA", "RDumb"],
    published="TA.3",
)
def two_regularisers(runs: Runs) -> pd.DataFrame:
    """EATA with weights 100 and 2,000, and RDumb, on CIN-C and CCC"""
    order, average = ["EATA-100", "EATA-2000", "RDumb"], {"CCC Avg": CCC}
    renamed = {"EATA": "EATA-2000"}
    return accuracy(runs, curve="method", order=order, renamed=renamed, average=average)


two_regularisers.says("better-on-cin-c").above("EATA-100", "EATA-2000", x="CIN-C")
two_regularisers.says("worse-on-hard").above("EATA-2000", "EATA-100", x="CCC-Hard")
two_regularisers.says("rdumb-best").above("RDumb", ["EATA-100", "EATA-2000"], each=CCC)


@experiment("rdumb/TA.4", "rdumb/beta-network", setting="CCC-Medium", published="TA.4")
def regulariser_without_bn(runs: Runs) -> pd.DataFrame:
    """EATA without batch normalisation on CCC-Medium by the weight of its regulariser"""
    return by_weight(runs)


regulariser_without_bn.says("falls").falls_along("EATA")
