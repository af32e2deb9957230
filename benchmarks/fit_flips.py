"""Fit f, which turns weighted flips into the source model's accuracy, to runs of a suite."""

import argparse
import json
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from .. import HoldfastError
from ..callbacks.flips import FlipFunction, fit
from ..run_folder import PROVENANCE, SUMMARY
from . import report

FLIPS = {True: "WeightedFlips_flips", False: "WeightedFlips_unweighted"}


class Point(NamedTuple):
    """One adapting run and the source model on the same stream."""

    stream: str
    seed: int
    method: str
    flips: dict[bool, float]  # weighted, and not
    accuracy: float  # of the source model, in [0,1]
    source: dict[str, Any]  # summary of its run
    facts: dict[str, Any]  # provenance of the adapting run
    parameters: int


def points(folders: list[Path], streams: str = "*", method: str = "*") -> list[Point]:
    """The runs with flips whose stream and method have names that match."""
    runs = [run for folder in folders for run in report.collect(folder) if run["finished"]]
    sources = {run["stream_id"]: run for run in runs if not run["adapts"]}
    found = []
    for run in runs:
        results, source = read(run, SUMMARY), sources.get(run["stream_id"])
        fits = fnmatchcase(run["stream"], streams) and fnmatchcase(run["method"], method)
        if run["adapts"] and fits and source is not None and FLIPS[True] in results:
            counts = {weighted: results[name] for weighted, name in FLIPS.items()}
            summary, size = read(source, SUMMARY), int(results["WeightedFlips_parameters"])
            names = run["stream"], run["seed"], run["method"]
            facts = read(run, PROVENANCE) | {"callback": settings(run)}
            found.append(Point(*names, counts, summary["accuracy"], summary, facts, size))
    return found


def read(run: report.Run, name: str) -> dict[str, Any]:
    """A JSON file of a run."""
    return json.loads((Path(run["folder"]) / name).read_text())


def settings(run: report.Run) -> dict[str, Any]:
    """The arguments that WeightedFlips had in a run."""
    path = Path(run["folder"]) / "config.yaml"
    config = yaml.safe_load(path.read_text()) if path.exists() else {}
    for callback in (config.get("trainer") or {}).get("callbacks") or []:
        if callback["class_path"].endswith("WeightedFlips"):
            return callback.get("init_args", {})
    return {}


def fitted(found: list[Point], degree: int, weighted: bool) -> FlipFunction:
    """f through the points, with where they come from."""
    if not found:
        raise HoldfastError(
            "no finished run has flips and a run of the source model on the same stream beside it."
        )
    kinds = {(p.method, p.facts["backbone"], p.facts["weights"]) for p in found}
    if len(kinds) > 1:
        names = sorted(method for method, _, _ in kinds)
        raise HoldfastError(f"these are runs of several methods or models: choose one of {names}.")
    pairs = np.array([[p.flips[weighted], 100 * p.accuracy] for p in found])
    facts = found[0].facts
    origin = {key: facts[key] for key in ("method", "backbone", "weights", "optimizer", "versions")}
    streams = [[p.stream, p.seed, p.facts["stream_id"]] for p in found]
    origin |= {"streams": streams, "callback": facts["callback"], "date": date.today().isoformat()}
    return fit(pairs, degree, weighted, found[0].parameters, **origin)


def main(argv: list[str]) -> int:
    """Fit, say how well, and write the file."""
    parser = argparse.ArgumentParser(prog="holdfast estimators fit", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="of suites with WeightedFlips")
    parser.add_argument("--streams", default="*", help="pattern of the streams' names")
    parser.add_argument("--method", default="*", help="pattern of the adapting method's name")
    parser.add_argument("--degree", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--unweighted", action="store_true")
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON file for WeightedFlips(f=...)"
    )
    args = parser.parse_args(argv)
    found = points(args.folders, args.streams, args.method)
    f = fitted(found, args.degree, not args.unweighted)
    f.save(args.out)
    errors = [abs(f(p.flips[f.weighted]) - p.accuracy) for p in found]
    terms = ", ".join(f"{c:.6g}" for c in f.coefficients)
    print(
        f"{args.out}: coefficients {terms} (highest degree first), fitted to {len(found)} streams,"
    )
    print(f"on which it is wrong by {100 * np.mean(errors):.2f} points in the mean")
    return 0
