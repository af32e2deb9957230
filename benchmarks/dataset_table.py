"""Errors of the estimates for whole data sets, in the layout of the thesis' Tables 3.1 and B.1."""

import argparse
import re
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from ..callbacks.flips import FlipFunction
from .fit_flips import Point, fitted, points
from .text import aligned

CONFIDENCE = ("AC", "DoC", "ATC-MC", "ATC-NE", "COT", "COTT")
FORMS = {
    "Unweighted linear": (1, False),
    "Unweighted quadratic": (2, False),
    "Weighted linear": (1, True),
    "Weighted quadratic": (2, True),
    "Weighted cubic": (3, True),
}
Errors = dict[str, list[float]]  # by family of streams


def family(stream: str) -> str:
    """What a stream is a part of: "IN-C, fog 3" of "IN-C", "fog 3" of "fog"."""
    if "," in stream:
        return stream.partition(",")[0]
    return re.sub(r"[ @-][\d.]+$", "", stream)


def confidence_errors(found: list[Point], name: str) -> Errors:
    """|estimate - accuracy| of the source model on the images collected, by family."""
    errors: Errors = {}
    for point in found:
        if name in point.source:
            error = abs(point.source[name] - point.source["collected_accuracy"])
            errors.setdefault(family(point.stream), []).append(error)
    return errors


def flip_errors(found: list[Point], f: FlipFunction) -> Errors:
    """|f(flips) - accuracy of the source model|, by family."""
    errors: Errors = {}
    for point in found:
        error = abs(f(point.flips[f.weighted]) - point.accuracy)
        errors.setdefault(family(point.stream), []).append(error)
    return errors


def table(columns: dict[str, Errors]) -> str:
    """Mean absolute error in points: families down, estimators across, then the paper's last rows."""
    columns = {name: errors for name, errors in columns.items() if errors}
    families = list(dict.fromkeys(f for errors in columns.values() for f in errors))
    means = {n: [100 * float(np.mean(e[f])) for f in families] for n, e in columns.items()}
    lines = [["data set", *columns]]
    for number, name in enumerate(families):
        lines.append([name, *(f"{values[number]:.2f}" for values in means.values())])
    lines.append(["Average", *(f"{np.mean(values):.2f}" for values in means.values())])
    lines.append(["Worst case", *(f"{max(values):.2f}" for values in means.values())])
    if len(families) > 1:
        rest = [(sum(values) - max(values)) / (len(values) - 1) for values in means.values()]
        lines.append(["Average (worst excluded)", *(f"{mean:.2f}" for mean in rest)])
    return aligned(lines)


def main(argv: list[str]) -> int:
    """Print the table of estimators and the table of forms of f."""
    parser = argparse.ArgumentParser(prog="holdfast estimators datasets", description=__doc__)
    parser.add_argument("folder", type=Path, help="of a suite with DatasetEstimates, WeightedFlips")
    parser.add_argument(
        "--fit-on", metavar="PATTERN", help="streams to fit f to; they do not count"
    )
    parser.add_argument("--f", help="or: a published f, or the file of one")
    parser.add_argument("--method", default="*", help="the adapting method, of several")
    args = parser.parse_args(argv)
    found = points([args.folder], method=args.method)
    held = [p for p in found if args.fit_on and fnmatchcase(p.stream, args.fit_on)]
    rest = [p for p in found if p not in held]
    if not rest:
        print(f"{args.folder} has no runs with flips beside runs of the source model")
        return 1
    functions = {}
    if held:
        functions = {name: fitted(held, *form) for name, form in FORMS.items()}
    elif args.f:
        functions = {"Weighted quadratic": FlipFunction.load(args.f)}
    wf = flip_errors(rest, functions["Weighted quadratic"]) if functions else {}
    for suffix, title in (("", "T = 1"), ("_T", "T fitted to the validation data")):
        columns = {name: confidence_errors(rest, f"{name}{suffix}") for name in CONFIDENCE}
        print(f"\nMean absolute error of the estimated accuracy, points; {title}")
        print(table({**columns, "WF": wf}))
    if len(functions) > 1:
        print(f"\nForms of f, fitted to {len(held)} streams")
        print(table({name: flip_errors(rest, f) for name, f in functions.items()}))
    return 0
