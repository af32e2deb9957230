"""Errors of the estimates for whole data sets, in the layout of the thesis' Tables 3.1, 3.2, B.1 to B.4."""

import argparse
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...callbacks.functional.flips import FlipFunction
from ...callbacks.weighted_flips import CLASSES
from ..papers.flips import BACKBONES, LIMITED, WF, fitted_as_published, numbers
from ..results.text import aligned
from .fit import Point, fitted, points, variant
from .table import Seeds, averaged, cell

CONFIDENCE = ("AC", "DoC", "ATC-MC", "ATC-NE", "COT", "COTT")
FORMS = {
    "Unweighted linear": (1, False),
    "Unweighted quadratic": (2, False),
    "Weighted linear": (1, True),
    "Weighted quadratic": (2, True),
    "Weighted cubic": (3, True),
}
SIZES = (1000, 500, 200, 100)  # of the set of held images
Errors = dict[str, Seeds]  # mean absolute error of each family of streams, for each seed
Functions = dict[int, FlipFunction]  # f for each seed


def family(stream: str) -> str:
    """What a stream is a part of: "IN-C, fog 3" of "IN-C", "fog 3" of "fog"."""
    if "," in stream:
        return stream.partition(",")[0]
    return re.sub(r"[ @-][\d.]+$", "", stream)


def mean_errors(found: list[Point], error: Callable[[Point], float]) -> Errors:
    """The mean of |error| over the streams of each family."""
    lists: dict[str, dict[int, list[float]]] = {}
    for point in found:
        seeds = lists.setdefault(family(point.stream), {})
        seeds.setdefault(point.seed, []).append(abs(error(point)))
    return {
        name: {seed: float(np.mean(values)) for seed, values in seeds.items()}
        for name, seeds in lists.items()
    }


def confidence_errors(found: list[Point], name: str) -> Errors:
    """Estimate less accuracy of the source model on the images collected."""
    known = [point for point in found if name in point.source]
    return mean_errors(known, lambda p: p.source[name] - p.source["collected_accuracy"])


def flip_errors(found: list[Point], f: Functions) -> Errors:
    """f(flips) less accuracy of the source model."""
    return mean_errors(found, lambda p: f[p.seed](p.flips[f[p.seed].weighted]) - p.accuracy)


def fitted_by_seed(held: list[Point], degree: int = 2, weighted: bool = True) -> Functions:
    """f through the points of each seed."""
    seeds = sorted({point.seed for point in held})
    return {s: fitted([p for p in held if p.seed == s], degree, weighted) for s in seeds}


class Column(NamedTuple):
    """Our errors, and the published ones of the families that were made in the published setting."""

    errors: Errors
    paper: dict[str, float]


def table(all_columns: dict[str, Column]) -> str:
    """Points: families down, estimators across, then the papers' last rows; mean ± sd over seeds."""
    paper = {name: column.paper for name, column in all_columns.items()}
    columns = {name: column.errors for name, column in all_columns.items() if column.errors}
    families = list(dict.fromkeys(f for errors in columns.values() for f in errors))
    columns = {n: e for n, e in columns.items() if len(e) == len(families)}
    lines = [["data set", *columns]]

    def add(name: str, values: list[Seeds]) -> None:
        lines.append([name, *map(cell, values)])
        row = [f"{paper[c][name]:.2f}" if name in paper[c] else "-" for c in columns]
        if set(row) != {"-"}:
            lines.append(["  published", *row])

    for name in families:
        add(name, [errors[name] for errors in columns.values()])
    add("Average", [averaged(list(errors.values())) for errors in columns.values()])
    if len(families) > 1:
        add("Worst case", [worst(errors) for errors in columns.values()])
        add("Average (worst excluded)", [without_worst(errors) for errors in columns.values()])
    return aligned(lines)


def worst(errors: Errors) -> Seeds:
    """The largest error of a family, for each seed that all families have."""
    common = averaged(list(errors.values()))
    return {seed: max(family[seed] for family in errors.values()) for seed in common}


def without_worst(errors: Errors) -> Seeds:
    """The mean error without the largest."""
    mean, largest, count = averaged(list(errors.values())), worst(errors), len(errors)
    return {seed: (mean[seed] * count - largest[seed]) / (count - 1) for seed in mean}


def show(title: str, *tables: str) -> None:
    print(f"\n{title}", *tables, sep="\n")


def by_family(found: list[Point]) -> dict[str, list[Point]]:
    families = dict.fromkeys(family(point.stream) for point in found)
    return {f: [p for p in found if family(p.stream) == f] for f in families}


def wf(found: list[Point], f: Functions, table: str, column: str, flips: dict = WF) -> Column:
    """Errors of f, with a column of a table of the thesis."""
    if not f or not found:
        return Column({}, {})
    same_f = all(map(fitted_as_published, f.values()))
    paper = numbers(table, column, by_family(found), flips) if same_f else {}
    return Column(flip_errors(found, f), paper)


def confidence_tables(rest: list[Point], one: str, f: Functions) -> None:
    """T3.1 for the first variant; of each other with a source run of its own, only the fitted T."""
    seen: list[dict] = []
    for name, own in by_method(rest).items():
        sources = [point.source for point in own]
        if all(source in seen for source in sources) or "AC" not in sources[0]:
            continue
        seen += sources
        label, groups = variant(name) and f", {variant(name)}", by_family(own)
        kinds = {"_T": "T fitted to the validation data", "": "T = 1"}
        for suffix, title in kinds.items() if name == one else [("_T", kinds["_T"])]:
            columns = {}
            for column in CONFIDENCE:
                errors = confidence_errors(own, f"{column}{suffix}")
                paper = {}
                if suffix and variant(name) == "limited":
                    paper = numbers("TB.2", f"{column} limited mem/data", groups, images=1000)
                elif suffix and name == one:
                    paper = numbers("T3.1", column, groups)
                columns[column] = Column(errors, paper)
            columns["WF"] = wf(own, f, "T3.1", "WF")
            show(
                f"Mean absolute error of the estimated accuracy, points; {title}{label}",
                table(columns),
            )


def main(argv: list[str]) -> int:
    """Print the tables that the runs allow."""
    parser = argparse.ArgumentParser(prog="holdfast estimators datasets", description=__doc__)
    parser.add_argument("folder", type=Path, help="of a suite with DatasetEstimates, WeightedFlips")
    parser.add_argument(
        "--fit-on", metavar="PATTERN", help="streams to fit f to; they do not count"
    )
    parser.add_argument("--f", help="or: a published f, or the file of one")
    parser.add_argument("--method", default="*", help="only adapting methods whose names match")
    args = parser.parse_args(argv)
    found = points([args.folder], method=args.method)
    held = [p for p in found if args.fit_on and fnmatchcase(p.stream, args.fit_on)]
    rest = [p for p in found if p not in held]
    if not rest:
        raise HoldfastError(
            f"{args.folder} has no finished runs with WeightedFlips, other than those of --fit-on, beside "
            "runs of Source on the same streams: add them, as in `holdfast suite flips-glyphs`."
        )
    one = found[0].method
    first_held, first = by_method(held).get(one, []), by_method(rest).get(one, [])
    f: Functions = {}
    if args.f:
        f = dict.fromkeys({p.seed for p in rest}, FlipFunction.load(args.f))
    elif first_held:
        f = fitted_by_seed(first_held)
    confidence_tables(rest, one, f)
    if first_held:
        columns = {}
        for name, form in FORMS.items():
            columns[name] = wf(first, fitted_by_seed(first_held, *form), "TB.1", name)
        show(f"Forms of f, fitted to {one} on {len(first_held)} streams and seeds", table(columns))
    if len(by_method(rest)) > 1:
        compare(rest, held, one, f)
    if first_held and all((p.folder / CLASSES).exists() for p in (*first, *first_held)):
        ablations(first, first_held, f)
    return 0


def by_method(found: list[Point]) -> dict[str, list[Point]]:
    methods = dict.fromkeys(point.method for point in found)
    return {method: [p for p in found if p.method == method] for method in methods}


def compare(rest: list[Point], held: list[Point], one: str, f: Functions) -> None:
    """Table 3.2, B.2 or B.3: WF of each variant, with the f of the first, and with one of its own."""
    columns, refitted = {}, {}
    for name, own in by_method(rest).items():
        architecture, limited = variant(name) in BACKBONES, variant(name) == "limited"
        where = ("T3.2", variant(name)) if architecture else ("TB.3", name)
        where = ("TB.2", "WF limited mem/data") if limited else where
        columns[name] = wf(own, f, *where, LIMITED if limited else WF)
        if fit_on := by_method(held).get(name):
            refitted[name] = Column(flip_errors(own, fitted_by_seed(fit_on)), {})
    if f:
        show(f"WF with one f for all, that of {one}", table(columns))
    if refitted:
        show("WF with f fitted to each", table(refitted))


def ablations(rest: list[Point], held: list[Point], f: Functions) -> None:
    """Appendix B.4: WF with other stops and with fewer held images, f fitted to each; or one f (B.2)."""
    settings = rest[0].facts["estimators"]["WeightedFlips"]
    stops = {f"{n} steps": {"stop": n} for n in [*settings["also"], settings["stop"]]}
    sizes = {f"{n} held": {"held": n} for n in SIZES if n <= settings["held"]}
    for title, choices in (("stopping iteration", stops), ("number of held images", sizes)):
        refitted, unchanged = {}, {}
        for name, choice in choices.items():
            again = [p.recounted(**choice) for p in rest]
            own = fitted_by_seed([p.recounted(**choice) for p in held])
            refitted[name] = Column(flip_errors(again, own), {})
            limited = ("TB.2", "WF limited mem") if name == "100 held" else ("TB.2", "-")
            unchanged[name] = wf(again, f, *limited)
        if len(choices) > 1:
            show(f"WF by {title}, f fitted to each", table(refitted))
            show(f"WF by {title}, one f", table(unchanged))
