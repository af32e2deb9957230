"""Errors of the estimates for whole data sets, in the layout of the thesis' Tables 3.1, 3.2, B.1 to B.4."""

import argparse
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ...callbacks.functional.flips import FlipFunction
from ...run_folder import FLIPS
from ..papers.flips.fig_b2 import SIZES
from ..papers.flips.setting import (
    BACKBONES,
    COLUMNS,
    LIMITED,
    WF,
    fitted_as_published,
    published_errors,
    remark,
)
from ..papers.flips.tb_1 import FORMS
from ..results.flip_errors import (
    Errors,
    Functions,
    confidence_errors,
    fit_by_seed,
    flip_errors,
    without_worst,
    worst,
)
from ..results.flip_points import Point, points
from ..results.runs import Run, grouped
from ..results.statistics import Seeds, average, mean_and_deviation
from ..results.text import aligned

CONFIDENCE = ("AC", "DoC", "ATC-MC", "ATC-NE", "COT", "COTT")


class Column(NamedTuple):
    """Our errors, and the published ones of the settings that were made as in the thesis."""

    errors: Errors
    published: dict[str, float]


def by_setting(points: list[Point]) -> dict[str, list[Run]]:
    """The adapting runs of each setting."""
    return grouped((point.run for point in points), lambda run: run.setting)


def by_method(points: list[Point]) -> dict[tuple[str, str], list[Point]]:
    """The points of each method and override."""
    return grouped(points, lambda point: point.run.variant)


def table(all_columns: dict[str, Column]) -> str:
    """Points: settings down, estimators across, then the papers' last rows; mean ± sd over seeds."""
    columns = {name: column for name, column in all_columns.items() if column.errors}
    settings = list(dict.fromkeys(s for column in columns.values() for s in column.errors))
    columns = {n: column for n, column in columns.items() if len(column.errors) == len(settings)}
    lines = [["data set", *columns]]

    def add(name: str, values: list[Seeds]) -> None:
        lines.append([name, *map(mean_and_deviation, values)])
        published = [column.published.get(name) for column in columns.values()]
        if any(value is not None for value in published):
            texts = ["-" if value is None else f"{value:.2f}" for value in published]
            lines.append(["  published", *texts])

    errors = [column.errors for column in columns.values()]
    for setting in settings:
        add(setting, [own[setting] for own in errors])
    add("Average", [average(own.values()) for own in errors])
    if len(settings) > 1:
        add("Worst case", [worst(own) for own in errors])
        add("Average (worst excluded)", [without_worst(own) for own in errors])
    return aligned(lines)


def show(title: str, columns: dict[str, Column]) -> None:
    """Print a table under its title."""
    print(f"\n{title}", table(columns), sep="\n")


def flip_column(
    points: list[Point],
    f: Functions,
    name: str,
    column: str,
    flips: dict[str, Any] = WF,
) -> Column:
    """Errors of f, with a column of a table of the thesis."""
    if not f or not points:
        return Column({}, {})
    published = {}
    if all(map(fitted_as_published, f.values())):
        published = published_errors(name, column, by_setting(points), flips)
    return Column(flip_errors(points, f), published)


def confidence_column(points: list[Point], name: str, fitted: bool, first: bool) -> Column:
    """Errors of an estimator from confidence, T being fitted or 1; published ones are with the former.

    `first`: the points are of the variant that Table 3.1 is about.
    """
    settings, published = by_setting(points), {}
    if fitted and points[0].run.override == "limited":
        published = published_errors("TB.2", f"{name} limited mem/data", settings, images=1000)
    elif fitted:
        published = published_errors("T3.1" if first else "TB.4", name, settings)
    return Column(confidence_errors(points, f"{name}_T" if fitted else name), published)


def confidence_tables(rest: list[Point], first: tuple[str, str], f: Functions) -> None:
    """T3.1 for the first variant; of each other with a source run of its own, only the fitted T."""
    seen: list[dict] = []
    for variant, own in by_method(rest).items():
        sources = [point.source for point in own]
        if all(source in seen for source in sources) or "AC" not in sources[0]:
            continue
        seen += sources
        override = own[0].run.override
        label = override and f", {override}"
        kinds = {True: "T fitted to the validation data", False: "T = 1"}
        for fitted, kind in kinds.items():
            if not fitted and variant != first:
                continue
            columns = {
                name: confidence_column(own, name, fitted, variant == first) for name in CONFIDENCE
            }
            columns["WF"] = flip_column(own, f, "T3.1", "WF")
            show(
                f"Mean absolute error of the estimated accuracy, points; {kind}{label}",
                columns,
            )


def variant_tables(rest: list[Point], held: list[Point], first: str, f: Functions) -> None:
    """Table 3.2, B.2 or B.3: WF of each variant, with the f of the first, and with one of its own."""
    unchanged, refitted = {}, {}
    flips: dict[str, Any]
    for variant, own in by_method(rest).items():
        run = own[0].run
        name, column, flips = "TB.3", run.label, WF
        architecture = COLUMNS.get(run.override, run.override)
        if architecture in BACKBONES:
            name, column = "T3.2", architecture
        elif run.override == "limited":
            name, column, flips = "TB.2", "WF limited mem/data", LIMITED
        unchanged[run.label] = flip_column(own, f, name, column, flips)
        if to_fit := by_method(held).get(variant):
            again = fit_by_seed(to_fit)
            refitted[run.label] = flip_column(own, again, "TB.4", "WF (refit f)")
    if f:
        show(f"WF with one f for all, that of {first}", unchanged)
    if refitted:
        show("WF with f fitted to each", refitted)


def form_table(rest: list[Point], held: list[Point]) -> None:
    """Table B.1: WF with other polynomials for f."""
    columns = {
        name: flip_column(rest, fit_by_seed(held, *form), "TB.1", name)
        for name, form in FORMS.items()
    }
    count = f"{len(held)} streams and seeds"
    show(f"Forms of f, fitted to {held[0].run.label} on {count}", columns)


def ablation_tables(rest: list[Point], held: list[Point], f: Functions) -> None:
    """Appendix B.4: WF with other stops and with fewer held images, f fitted to each; or one f (B.2)."""
    settings = rest[0].settings
    stops = {f"{n} steps": {"stop": n} for n in [*settings["also"], settings["stop"]]}
    sizes = {f"{n} held": {"held": n} for n in SIZES if n <= settings["held"]}
    for title, choices in (("stopping iteration", stops), ("number of held images", sizes)):
        refitted, unchanged = {}, {}
        for name, choice in choices.items():
            again = [p.recounted(**choice) for p in rest]
            own = fit_by_seed([p.recounted(**choice) for p in held])
            refitted[name] = Column(flip_errors(again, own), {})
            column = "WF limited mem" if choice == {"held": 100} else "-"
            unchanged[name] = flip_column(again, f, "TB.2", column)
        if len(choices) > 1:
            show(f"WF by {title}, f fitted to each", refitted)
            show(f"WF by {title}, one f", unchanged)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast estimators datasets",
        description=__doc__,
        epilog="example: holdfast estimators datasets runs/flips-glyphs --fit-on 'holdout *'",
    )
    parser.add_argument("folder", type=Path, help="of a suite with DatasetEstimates, WeightedFlips")
    parser.add_argument(
        "--fit-on", metavar="PATTERN", help="streams to fit f to; they do not count"
    )
    parser.add_argument("--f", help="or: a published f, or the file of one")
    parser.add_argument("--method", default="*", help="only adapting methods whose names match")
    return parser


def main(argv: list[str]) -> int:
    """Print the tables that the runs allow."""
    args = parser().parse_args(argv)
    found = points([args.folder], method=args.method)
    held = [p for p in found if args.fit_on and fnmatchcase(p.run.stream, args.fit_on)]
    rest = [p for p in found if p not in held]
    if not rest:
        raise HoldfastError(
            f"{args.folder} has no finished runs with WeightedFlips, other than those of --fit-on, beside "
            "runs of Source on the same streams: add them, as in `holdfast suite flips-glyphs`."
        )
    first = found[0].run.variant
    first_held, first_rest = by_method(held).get(first, []), by_method(rest).get(first, [])
    f: Functions = {}
    if args.f:
        f = dict.fromkeys({p.run.seed for p in rest}, FlipFunction.load(args.f))
    elif first_held:
        f = fit_by_seed(first_held)
    confidence_tables(rest, first, f)
    if first_held:
        form_table(first_rest, first_held)
    if len(by_method(rest)) > 1:
        variant_tables(rest, held, found[0].run.label, f)
    if first_held and all((p.run.folder / FLIPS).exists() for p in (*first_rest, *first_held)):
        ablation_tables(first_rest, first_held, f)
    if note := remark([p.run for p in rest]):
        print(f"\n{note}")
    return 0
