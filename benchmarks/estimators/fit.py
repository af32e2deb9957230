"""Fit f, which turns weighted flips into the source model's accuracy, to runs of a suite."""

import argparse
import json
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from ... import HoldfastError
from ...callbacks.functional.flips import FlipFunction, fit, flips
from ...callbacks.weighted_flips import CLASSES
from ...run_folder import PROVENANCE, SUMMARY
from ..results import report

FLIPS = {True: "WeightedFlips_flips", False: "WeightedFlips_unweighted"}


class Point(NamedTuple):
    """One adapting run and the source model on the same stream."""

    stream: str
    seed: int
    method: str  # with its override, as in RDumb-limited
    flips: dict[bool, float]  # weighted, and not
    accuracy: float  # of the source model, in [0,1]
    source: dict[str, Any]  # summary of its run
    facts: dict[str, Any]  # provenance of the adapting run
    parameters: int
    folder: Path  # of the adapting run

    @property
    def data(self) -> dict[str, Any]:
        """The stream's class and arguments."""
        path = self.folder / "config.yaml"
        return yaml.safe_load(path.read_text())["data"] if path.exists() else {}

    def recounted(self, stop: int | None = None, held: int | None = None) -> "Point":
        """The same with the flips up to another stop, or of the first `held` images only."""
        with np.load(self.folder / CLASSES) as kept:
            steps = kept["steps"].tolist()
            end = kept["classes"][steps.index(steps[-1] if stop is None else stop)][:held]
            start, confidence = kept["classes"][0][:held], kept["confidence"][:held]
        both = {weighted: flips(start, end, confidence, weighted) for weighted in FLIPS}
        return self._replace(flips=both)


def points(folders: list[Path], streams: str = "*", method: str = "*") -> list[Point]:
    """The runs with flips whose stream and method have names that match.

    Each stands beside the run of its source model on the same stream: one with the same override, or
    else any with the same weights.
    """
    runs = [run for folder in folders for run in report.collect(folder) if run["finished"]]
    facts = [(run, read(run, PROVENANCE)) for run in runs]
    sources: dict[tuple[str, str], dict[str, report.Run]] = {}
    for run, own in facts:
        if not run["adapts"]:
            same = sources.setdefault((run["stream_id"], own["weights"]), {})
            same[variant(run["method"])] = run
    found = []
    for run, own in facts:
        results, same = read(run, SUMMARY), sources.get((run["stream_id"], own["weights"]), {})
        source = same.get(variant(run["method"]), next(iter(same.values()), None))
        fits = fnmatchcase(run["stream"], streams) and fnmatchcase(run["method"], method)
        if source is None or source["accuracy"] is None:
            continue
        if run["adapts"] and fits and FLIPS[True] in results:
            counts = {weighted: results[name] for weighted, name in FLIPS.items()}
            summary, size = read(source, SUMMARY), int(results["WeightedFlips_parameters"])
            names = run["stream"], run["seed"], run["method"]
            folder = Path(run["folder"])
            found.append(Point(*names, counts, summary["accuracy"], summary, own, size, folder))
    return found


def variant(method: str) -> str:
    """The override in the name of a suite's method: "limited" of "RDumb-limited"."""
    return method.partition("-")[2]


def read(run: report.Run, name: str) -> dict[str, Any]:
    """A JSON file of a run."""
    return json.loads((Path(run["folder"]) / name).read_text())


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
    callback = facts["estimators"]["WeightedFlips"]
    origin |= {"streams": streams, "callback": callback, "date": date.today().isoformat()}
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
