"""Estimate the accuracy of several models on one shift from their agreement (pure functions)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...callbacks.functional.aline import (
    Line,
    Measure,
    accuracies,
    agreements,
    aline_of_shares,
    exact,
    line,
    mean_with_others,
    probit,
)
from ...callbacks.functional.confidence import score_estimates
from ...callbacks.functional.spans import exact_match
from .predictions import VALIDATION, Predictions, load, measures

Array = np.ndarray
TRUSTED = 0.95  # minimum R^2 of a reliable agreement line (Baek et al. 2022)


class Models(NamedTuple):
    """Predictions of several models on one stream and on labelled source data."""

    stream: str
    seed: int | None
    names: list[str]
    classes: Array  # [models,n], answers [models,n,2]
    labels: Array | None  # [n] or [n,2]; None: unknown
    val_classes: Array  # [models,m]
    val_labels: Array  # [m]
    confidence: dict[str, Array] = {}  # noqa: RUF012 -- estimates from confidences, [models]
    measure: Measure = exact
    measured: str = "accuracy"
    projnorm: Array | None = None  # ProjNorm on the stream, [models]

    @property
    def samples(self) -> tuple[int, int]:
        """The numbers of samples in and out of distribution."""
        return self.val_classes.shape[1], self.classes.shape[1]


class Estimates(NamedTuple):
    """Estimated accuracies in [0,1] of each model, and the fit of the agreement line."""

    truth: Array | None
    estimates: dict[str, Array]
    excess: float  # in-distribution agreement minus accuracy, above 0 for too similar models
    agreement_line: Line | None  # None with two models, or if the models are too similar
    accuracy_line: Line | None  # None also without labels out of distribution

    @property
    def r2(self) -> float:
        """R^2 of the agreement line, NaN if there is none."""
        return float("nan") if self.agreement_line is None else self.agreement_line.r2

    @property
    def trusted(self) -> bool:
        return self.r2 > TRUSTED


class Shares(NamedTuple):
    """Accuracy [m] and agreement [m,m], in and out of distribution."""

    accuracy: tuple[Array, Array | None]
    agreement: tuple[Array, Array]


def shares(models: Models) -> Shares:
    """Compute the accuracies and agreements from which all estimates follow."""
    measure = models.measure
    outside = None if models.labels is None else accuracies(models.classes, models.labels, measure)
    return Shares(
        (accuracies(models.val_classes, models.val_labels, measure), outside),
        (agreements(models.val_classes, measure), agreements(models.classes, measure)),
    )


def estimate(models: Models, most_agreement: float | None = None) -> Estimates:
    """Estimate by naive agreement, confidences and, with at least three distinct models, ALine-S and -D."""
    (inside, truth), (id_agreement, ood_agreement) = shares(models)
    excess = float((mean_with_others(id_agreement) - inside).mean())
    estimates = {"agreement": mean_with_others(ood_agreement), **models.confidence}
    accuracy_line = agreement_line = None
    try:
        if truth is not None:
            x, y = (probit(a, n) for a, n in zip((inside, truth), models.samples, strict=True))
            accuracy_line = line(x, y)
        found = aline_of_shares(inside, id_agreement, ood_agreement, models.samples, most_agreement)
    except HoldfastError:
        return Estimates(truth, estimates, excess, agreement_line, accuracy_line)
    estimates |= {"ALine-S": found.aline_s, "ALine-D": found.aline_d}
    return Estimates(truth, estimates, excess, found.agreement_line, accuracy_line)


def best_of_both(result: Estimates) -> dict[str, Array]:
    """Each confidence estimate, with or without temperature scaling, whichever has the lower error.

    Saxena et al. 2024 report this oracle choice, which needs labels.
    """
    if result.truth is None:
        return {}
    best = {}
    for name, plain in result.estimates.items():
        if (calibrated := result.estimates.get(f"{name}_T")) is not None:
            errors = [np.abs(e - result.truth).mean() for e in (plain, calibrated)]
            best[f"{name} (oracle)"] = (plain, calibrated)[int(np.argmin(errors))]
    return best


def from_files(files: list[Path], prefix: str, seed: int | None = None) -> list[Models]:
    """Load the models whose predictions are in these files, once per shift and measure.

    Raises:
        HoldfastError: if the files have different samples or kinds of predictions, or no shift in common.
    """
    sets = [load(file) for file in files]
    shifts = [name for name in sets[0] if all(name in of_one for of_one in sets)]
    if len(sets) < 2 or len(shifts) < 2:
        raise HoldfastError(
            f"{files[0]}: fewer than two models share '{VALIDATION}' and a shift. Pass predictions of at "
            "least two such models."
        )
    common = {name: aligned(files, [of_one[name] for of_one in sets], name) for name in shifts}
    inside = common.pop(VALIDATION)
    val_classes, val_labels = np.stack([p.classes for p in inside]), inside[0].labels
    assert val_labels is not None
    found = []
    for shift, outside in common.items():
        classes = np.stack([p.classes for p in outside])
        norms = [p.projnorm for p in outside if p.projnorm is not None]
        for measured, measure in measures(classes).items():
            models = Models(
                stream=f"{prefix} {shift}".strip(),
                seed=seed,
                names=list(map(str, files)),
                classes=classes,
                labels=outside[0].labels,
                val_classes=val_classes,
                val_labels=val_labels,
                confidence={} if measured == "F1" else confidences(outside, inside, val_labels),
                measure=measure,
                measured=measured,
                projnorm=np.array(norms) if len(norms) == len(outside) else None,
            )
            found.append(models)
    return found


def aligned(files: list[Path], several: list[Predictions], shift: str) -> list[Predictions]:
    """The predictions of each model on one shift, with the samples in the same order."""
    first = several[0]
    ids = np.sort(first.ids)
    for file, other in zip(files, several, strict=True):
        if other.classes.shape != first.classes.shape or not np.array_equal(
            np.sort(other.ids), ids
        ):
            raise HoldfastError(
                f"{file} and {files[0]} have different samples or kinds of predictions for '{shift}'. "
                "Predict the same samples, as classes or as answers."
            )
    return [other.at(ids) for other in several]


def confidences(
    own: list[Predictions], inside: list[Predictions], val_labels: Array
) -> dict[str, Array]:
    """AC, DoC and ATC of each model, as far as all models have the scores."""
    compare = exact_match if val_labels.ndim == 2 else exact
    found = [
        score_estimates(p.scores, val.scores, compare(val.classes, val_labels))
        for p, val in zip(own, inside, strict=True)
        if p.scores.keys() <= val.scores.keys()
    ]
    if len(found) < len(own):
        return {}
    names = [name for name in found[0] if all(name in one for one in found)]
    return {name: np.array([one[name] for one in found]) for name in names}
