"""Flips of runs paired with their source model's accuracy: the points to fit and evaluate f."""

from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError
from ...callbacks.functional.flips import FlipFunction, fit, flips
from ...run_folder import FLIPS
from .runs import Run

_COUNTS = {True: "WeightedFlips_flips", False: "WeightedFlips_unweighted"}  # weighted, and not


class Point(NamedTuple):
    """The flips of one adapting run, weighted and unweighted, with the source model's run as reference."""

    run: Run
    flips: dict[bool, float]

    @property
    def source(self) -> dict[str, Any]:
        """The measurements of the source model on the same stream."""
        return {} if self.run.source is None else self.run.source.summary

    @property
    def accuracy(self) -> float:
        """The source model's accuracy in [0,1] over distinct images, or over batches if not collected."""
        return self.source.get("collected_accuracy", self.source["accuracy"])

    def recounted(self, stop: int | None = None, held: int | None = None) -> "Point":
        """The point with the flips up to another stop, or of the first `held` images only."""
        with np.load(self.run.folder / FLIPS) as arrays:
            steps = arrays["steps"].tolist()
            end = arrays["classes"][steps.index(steps[-1] if stop is None else stop)][:held]
            start, confidence = arrays["classes"][0][:held], arrays["confidence"][:held]
        both = {weighted: flips(start, end, confidence, weighted) for weighted in _COUNTS}
        return self._replace(flips=both)


def points_of(runs: Iterable[Run]) -> list[Point]:
    """The points of those runs that have flips and a finished run of their source model."""
    return [
        Point(run, {weighted: run.summary[name] for weighted, name in _COUNTS.items()})
        for run in runs
        if run.adapts
        and _COUNTS[True] in run.summary
        and run.source is not None
        and run.source.finished
        and run.source.accuracy is not None
    ]


def fit_points(points: list[Point], degree: int = 2, weighted: bool = True) -> FlipFunction:
    """f fitted to the points, with their provenance.

    Raises HoldfastError if there are no points, or they are of several methods or models.
    """
    if not points:
        raise HoldfastError(
            "No finished run with flips has a finished run of the source model on the same stream. Run "
            "Source on the same streams."
        )
    runs = [point.run for point in points]
    facts = runs[0].provenance
    if len({(*r.variant, r.provenance["backbone"], r.provenance["weights"]) for r in runs}) > 1:
        labels = sorted({run.label for run in runs})
        raise HoldfastError(
            f"The runs are of several methods or models. Choose one of {labels} with --method."
        )
    described = {
        key: facts[key] for key in ("method", "backbone", "weights", "optimizer", "versions")
    }
    data = []
    for run in runs:
        parts = run.provenance.get("parts", [])
        data.append([run.provenance["stream"], [pair for part in parts for pair in part[0]]])
    return fit(
        np.array([[point.flips[weighted], 100 * point.accuracy] for point in points]),
        degree,
        weighted,
        int(runs[0].summary["WeightedFlips_parameters"]),
        **described,
        streams=[[run.stream, run.seed, run.stream_id] for run in runs],
        data=data,
        callback=facts["estimators"]["WeightedFlips"],
        date=date.today().isoformat(),
    )
