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
from ...callbacks.functional.spans import MEASURES
from .predictions import VALIDATION, Predictions, load

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
    """Estimated accuracies in [0,1] of each model, and the lines in and out of distribution."""

    models: Models
    inside: Array  # accuracy in distribution, [m]
    truth: Array | None  # accuracy out of distribution, [m]
    agreement: tuple[Array, Array]  # in and out of distribution, [m,m]
    estimates: dict[str, Array]
    agreement_line: Line | None = None  # None with two models, or if the models are too similar
    accuracy_line: Line | None = None  # None also without labels out of distribution

    @property
    def excess(self) -> float:
        """In-distribution agreement minus accuracy, above 0 for too similar models."""
        return float((mean_with_others(self.agreement[0]) - self.inside).mean())

    @property
    def r2(self) -> float:
        """R^2 of the agreement line, NaN if there is none."""
        return float("nan") if self.agreement_line is None else self.agreement_line.r2

    @property
    def trusted(self) -> bool:
        return self.r2 > TRUSTED

    @property
    def oracle(self) -> dict[str, Array]:
        """Each confidence estimate, with or without temperature scaling, whichever has the lower error.

        Saxena et al. 2024 report this oracle choice, which needs labels.
        """
        best = {}
        for name, plain in self.estimates.items() if self.truth is not None else ():
            if (calibrated := self.estimates.get(f"{name}_T")) is not None:
                errors = [np.abs(e - self.truth).mean() for e in (plain, calibrated)]
                best[f"{name} (oracle)"] = (plain, calibrated)[int(np.argmin(errors))]
        return best


def estimate(models: Models) -> Estimates:
    """Estimate by naive agreement, confidences and, with at least three distinct models, ALine-S and -D."""
    measure, samples = models.measure, models.samples
    inside = accuracies(models.val_classes, models.val_labels, measure)
    truth = None if models.labels is None else accuracies(models.classes, models.labels, measure)
    within, across = (agreements(c, measure) for c in (models.val_classes, models.classes))
    estimates = {"agreement": mean_with_others(across), **models.confidence}
    found = Estimates(models, inside, truth, (within, across), estimates)
    try:
        if truth is not None:
            own = line(probit(inside, samples[0]), probit(truth, samples[1]))
            found = found._replace(accuracy_line=own)
        aline = aline_of_shares(inside, within, across, samples)
    except HoldfastError:
        return found
    estimates |= {"ALine-S": aline.aline_s, "ALine-D": aline.aline_d}
    return found._replace(agreement_line=aline.agreement_line)


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
    answers = inside[0].classes.ndim == 2
    found = []
    for shift, outside in common.items():
        norms = [p.projnorm for p in outside if p.projnorm is not None]
        for measured, measure in (MEASURES if answers else {"accuracy": exact}).items():
            models = Models(
                stream=f"{prefix} {shift}".strip(),
                seed=seed,
                names=list(map(str, files)),
                classes=np.stack([p.classes for p in outside]),
                labels=outside[0].labels,
                val_classes=np.stack([p.classes for p in inside]),
                val_labels=np.asarray(inside[0].labels),
                confidence={} if measured == "F1" else confidences(outside, inside, measure),
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
        same = other.classes.shape == first.classes.shape
        if not same or not np.array_equal(np.sort(other.ids), ids):
            raise HoldfastError(
                f"{file} and {files[0]} have different samples or kinds of predictions for '{shift}'. "
                "Predict the same samples, as classes or as answers."
            )
    return [other.at(ids) for other in several]


def confidences(
    outside: list[Predictions], inside: list[Predictions], measure: Measure
) -> dict[str, Array]:
    """AC, DoC and ATC of each model, as far as all models have the scores."""
    found = [
        score_estimates(p.scores, val.scores, measure(val.classes, np.asarray(val.labels)))
        for p, val in zip(outside, inside, strict=True)
        if p.scores.keys() <= val.scores.keys()
    ]
    if len(found) < len(outside):
        return {}
    names = [name for name in found[0] if all(name in one for one in found)]
    return {name: np.array([one[name] for one in found]) for name in names}
