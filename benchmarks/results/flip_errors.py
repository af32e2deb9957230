"""Errors of the estimates for whole data sets: means over the streams of each setting, for each seed."""

from collections.abc import Callable

import numpy as np

from ...callbacks.functional.flips import FlipFunction
from .flip_points import Point, fit_points
from .runs import grouped
from .statistics import Seeds, average

Errors = dict[str, Seeds]  # mean absolute error of each setting, for each seed
Functions = dict[int | None, FlipFunction]  # f for each seed


def mean_errors(points: list[Point], error: Callable[[Point], float]) -> Errors:
    """The mean of |error| over the streams of each setting."""
    settings = grouped(points, lambda point: point.run.setting)
    return {
        setting: {
            seed: float(np.mean([abs(error(point)) for point in same]))
            for seed, same in by_seed(of_one).items()
        }
        for setting, of_one in settings.items()
    }


def confidence_errors(points: list[Point], estimator: str) -> Errors:
    """Estimate less accuracy of the source model on the images collected."""
    known = [point for point in points if estimator in point.source]
    return mean_errors(known, lambda p: p.source[estimator] - p.source["collected_accuracy"])


def flip_errors(points: list[Point], functions: Functions) -> Errors:
    """f(flips) less accuracy of the source model."""

    def error(point: Point) -> float:
        f = functions[point.run.seed]
        return f(point.flips[f.weighted]) - point.accuracy

    return mean_errors(points, error)


def fit_by_seed(points: list[Point], degree: int = 2, weighted: bool = True) -> Functions:
    """f through the points of each seed."""
    return {seed: fit_points(same, degree, weighted) for seed, same in by_seed(points).items()}


def by_seed(points: list[Point]) -> dict[int | None, list[Point]]:
    """The points of each seed."""
    return grouped(points, lambda point: point.run.seed)


def worst(errors: Errors) -> Seeds:
    """The largest error of a setting, for each seed that all settings have."""
    common = average(errors.values())
    return {seed: max(of_one[seed] for of_one in errors.values()) for seed in common}


def without_worst(errors: Errors) -> Seeds:
    """The mean error without the largest."""
    mean, largest, count = average(errors.values()), worst(errors), len(errors)
    return {seed: (mean[seed] * count - largest[seed]) / (count - 1) for seed in mean}
