"""Estimate the accuracy of several models on one shift from their agreement, and draw both.

The models are runs with DatasetEstimates, or files of predictions (see `predictions`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ... import HoldfastError
from ...callbacks.functional import aline
from ...callbacks.functional.aline import Line, Measure, exact
from ...callbacks.functional.confidence import score_estimates
from ...callbacks.functional.spans import MEASURES
from ...drawing import COLOURS, legend, panels
from ...run_folder import OUTPUTS
from .predictions import VALIDATION, Predictions, prediction_files, read_predictions
from .runs import Run, collect

_Array = np.ndarray
# Estimates of whole data sets in the summaries of DatasetEstimates.
_CONFIDENCE = [name + end for name in ("AC", "DoC", "ATC-MC", "ATC-NE") for end in ("", "_T")]
TRUSTED = 0.95  # minimum R^2 of a reliable agreement line (Baek et al. 2022)

_TICKS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
_COLUMNS = 3
_ACCURACY, _AGREEMENT = COLOURS[0], COLOURS[3]
_PAIRS = "agreement of two models"


class Models(NamedTuple):
    """Predictions of several models on one stream and on labelled source data."""

    stream: str
    seed: int | None
    names: list[str]
    classes: _Array  # [models,n], answers [models,n,2]
    labels: _Array | None  # [n] or [n,2]; None: unknown
    val_classes: _Array  # [models,m]
    val_labels: _Array  # [m]
    confidence: dict[str, _Array] = {}  # noqa: RUF012 -- estimates from confidences, [models]
    measure: Measure = exact
    measured: str = "accuracy"
    projnorm: _Array | None = None  # ProjNorm on the stream, [models]

    @property
    def samples(self) -> tuple[int, int]:
        """The numbers of samples in and out of distribution."""
        return self.val_classes.shape[1], self.classes.shape[1]


class Estimates(NamedTuple):
    """Estimated accuracies in [0,1] of each model, and the lines in and out of distribution."""

    models: Models
    inside: _Array  # accuracy in distribution, [m]
    truth: _Array | None  # accuracy out of distribution, [m]
    agreement: tuple[_Array, _Array]  # in and out of distribution, [m,m]
    estimates: dict[str, _Array]
    agreement_line: Line | None = None  # None with two models, or if the models are too similar
    accuracy_line: Line | None = None  # None also without labels out of distribution

    @property
    def excess(self) -> float:
        """In-distribution agreement minus accuracy, above 0 for too similar models."""
        return float((aline.mean_with_others(self.agreement[0]) - self.inside).mean())

    @property
    def r2(self) -> float:
        """R^2 of the agreement line, NaN if there is none."""
        return float("nan") if self.agreement_line is None else self.agreement_line.r2

    @property
    def table(self) -> pd.DataFrame:
        """The accuracy of each model and its estimates, in [0,1]; NaN where unknown."""
        facts: dict[str, Any] = {"stream": self.models.stream, "seed": self.models.seed}
        facts |= {"measure": self.models.measured, "model": self.models.names}
        truth = np.nan if self.truth is None else self.truth
        return pd.DataFrame({**facts, "accuracy": truth, **self.estimates})


def estimate(models: Models) -> Estimates:
    """Estimate by naive agreement, confidences and, with at least three distinct models, ALine-S and -D."""
    measure, samples = models.measure, models.samples
    inside = aline.accuracies(models.val_classes, models.val_labels, measure)
    within, across = (aline.agreements(c, measure) for c in (models.val_classes, models.classes))
    estimates = {"agreement": aline.mean_with_others(across), **models.confidence}
    lines = aline.aline_of_shares(inside, within, across, samples)
    if lines is not None:
        estimates |= {"ALine-S": lines.aline_s, "ALine-D": lines.aline_d}
    result = Estimates(
        models, inside, None, (within, across), estimates, lines and lines.agreement_line
    )
    if models.labels is None:
        return result
    truth = aline.accuracies(models.classes, models.labels, measure)
    # With or without temperature scaling, whichever has the lower error: this choice of Saxena et al. 2024
    # needs labels.
    for name in [name for name in estimates if f"{name}_T" in estimates]:
        both = estimates[name], estimates[f"{name}_T"]
        estimates[f"{name} (oracle)"] = min(both, key=lambda e: np.abs(e - truth).mean())
    line = aline.line(aline.probit(inside, samples[0]), aline.probit(truth, samples[1]))
    return result._replace(truth=truth, accuracy_line=line)


def from_files(files: list[Path], prefix: str, seed: int | None = None) -> list[Models]:
    """Load the models whose predictions are in these files, once per shift and measure.

    Raises HoldfastError if the files have different samples or kinds of predictions, or no shift in
    common.
    """
    return _combined(list(map(str, files)), list(map(read_predictions, files)), prefix, seed)


def from_folders(folders: list[Path], together: bool) -> Iterator[Models]:
    """The ensembles with predictions below the folders; with `together`, all models as one ensemble."""
    ensembles = prediction_files(folders)
    if together and ensembles:
        ensembles = {Path(): [file for files in ensembles.values() for file in files]}
    for folder, files in ensembles.items():
        if len(files) > 1:
            yield from from_files(files, "/".join(folder.parts[-3:]))


def from_runs(folders: list[Path]) -> Iterator[Models]:
    """The runs below the folders that stored their predictions, those on the same images together.

    They have their own estimates from confidences.
    """
    stored: dict[tuple[str, bytes, bytes], list[tuple[Run, dict[str, Predictions]]]] = {}
    for run in collect(*folders):
        if (run.folder / OUTPUTS).exists():
            with np.load(run.folder / OUTPUTS) as arrays:
                labels, val_labels = arrays["labels"], arrays["val_labels"]
                both = {VALIDATION: (arrays["val_classes"], val_labels)}
                both[""] = arrays["classes"], labels
                sets = {
                    name: Predictions(np.arange(len(y)), x, y, {}) for name, (x, y) in both.items()
                }
            images = run.stream_id, labels.tobytes(), val_labels.tobytes()
            stored.setdefault(images, []).append((run, sets))
    for same in stored.values():
        if len(same) > 1:
            runs = [run for run, _ in same]
            names = [str(run.folder) for run in runs]
            (models,) = _combined(names, [s for _, s in same], runs[0].stream, runs[0].seed)
            known = [name for name in _CONFIDENCE if all(name in run.summary for run in runs)]
            confidence = {name: np.array([run.summary[name] for run in runs]) for name in known}
            yield models._replace(confidence=confidence)


def _combined(
    names: list[str], sets: Sequence[dict[str, Predictions]], prefix: str, seed: int | None
) -> list[Models]:
    """Models with their predictions by dataset, once per shift and measure."""
    shifts = [name for name in sets[0] if all(name in by_name for by_name in sets)]
    if len(sets) < 2 or len(shifts) < 2:
        raise HoldfastError(
            f"{names[0]}: fewer than two models share '{VALIDATION}' and a shift. Pass predictions of at "
            "least two such models."
        )
    common = {shift: _aligned(names, [by[shift] for by in sets], shift) for shift in shifts}
    inside = common.pop(VALIDATION)
    answers = inside[0].classes.ndim == 2
    ensembles = []
    for shift, outside in common.items():
        norms = [p.projnorm for p in outside if p.projnorm is not None]
        for measured, measure in (MEASURES if answers else {"accuracy": exact}).items():
            models = Models(
                stream=f"{prefix} {shift}".strip(),
                seed=seed,
                names=names,
                classes=np.stack([p.classes for p in outside]),
                labels=outside[0].labels,
                val_classes=np.stack([p.classes for p in inside]),
                val_labels=np.asarray(inside[0].labels),
                confidence={} if measured == "F1" else _confidences(outside, inside, measure),
                measure=measure,
                measured=measured,
                projnorm=np.array(norms) if len(norms) == len(outside) else None,
            )
            ensembles.append(models)
    return ensembles


def _aligned(names: list[str], models: list[Predictions], shift: str) -> list[Predictions]:
    """The predictions of each model on one shift, if they are of the same samples."""
    first = models[0]
    for name, other in zip(names, models, strict=True):
        same = other.classes.shape == first.classes.shape
        if not same or not np.array_equal(other.ids, first.ids):
            raise HoldfastError(
                f"{name} and {names[0]} have different samples or kinds of predictions for '{shift}'. "
                "Predict the same samples, as classes or as answers."
            )
    return models


def _confidences(
    outside: list[Predictions], inside: list[Predictions], measure: Measure
) -> dict[str, _Array]:
    """AC, DoC and ATC of each model, as far as all models have the scores."""
    estimates = [
        score_estimates(p.scores, val.scores, measure(val.classes, np.asarray(val.labels)))
        for p, val in zip(outside, inside, strict=True)
        if p.scores.keys() <= val.scores.keys()
    ]
    if len(estimates) < len(outside):
        return {}
    names = [name for name in estimates[0] if all(name in of_model for of_model in estimates)]
    return {name: np.array([of_model[name] for of_model in estimates]) for name in names}


# ---- accuracy and agreement out of distribution against those in distribution, on probit axes --------


class Points(NamedTuple):
    """Accuracies of models and agreements of pairs of models in percent, for one ensemble and shift."""

    accuracy: list[list[float]]  # of each model, in and out of distribution; empty without labels
    agreement: list[list[float]]  # of each pair of models
    samples: list[int]  # numbers in and out of distribution
    measured: str = "accuracy"


def points(result: Estimates) -> Points:
    """Collect accuracies and agreements in and out of distribution."""
    both = aline.pairs(len(result.inside))
    return Points(
        [] if result.truth is None else _in_percent(result.inside, result.truth),
        _in_percent(*(shares[both] for shares in result.agreement)),
        list(result.models.samples),
        result.models.measured,
    )


def _in_percent(inside: _Array, outside: _Array) -> list[list[float]]:
    """Pairs of percentages, rounded to two decimals."""
    return np.round(100 * np.stack([inside, outside], 1), 2).tolist()


def draw(ensembles: Mapping[str, Points], path: Path) -> Path:
    """Draw one panel per ensemble; returns the path."""
    columns = min(_COLUMNS, len(ensembles))
    with panels(path, len(ensembles), columns, height=2.4) as (figure, axes):
        for ax, (title, shares) in zip(axes, ensembles.items(), strict=True):
            _draw_panel(ax, title, shares)
        legend(figure, axes)
    return path


def _draw_panel(ax: Any, title: str, shares: Points) -> None:
    known = {_PAIRS: shares.agreement, f"{shares.measured} of a model": shares.accuracy}
    both = {
        label: [
            aline.probit(x, n) for x, n in zip(np.array(v).T / 100, shares.samples, strict=True)
        ]
        for label, v in known.items()
        if v
    }
    ends = np.concatenate([x for xy in both.values() for x in xy])
    ends = np.linspace(ends.min() - 0.15, ends.max() + 0.15)
    texts = []
    for label, (x, y) in both.items():
        colour, size = (_AGREEMENT, 3) if label == _PAIRS else (_ACCURACY, 9)
        ax.scatter(ndtr(x), ndtr(y), s=size, color=colour, lw=0, label=label)
        if line := aline.line(x, y):
            ax.plot(ndtr(ends), ndtr(line.slope * ends + line.bias), color=colour, lw=1.3)
        texts.append(f"{label[:3]}: {line or '-'}")
    limits = ndtr(ends[[0, -1]])
    ax.plot(limits, limits, color="0.6", ls=":", lw=1, label="y = x")
    ticks = [tick for tick in _TICKS if limits[0] < tick < limits[1]]
    ax.set_xscale("function", functions=(ndtri, ndtr))
    ax.set_yscale("function", functions=(ndtri, ndtr))
    ax.set(xlim=limits, ylim=limits, xlabel="in distribution, %", ylabel="out of distribution, %")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{100 * tick:g}" for tick in ticks])
    ax.set_title(title)
    ax.text(0.03, 0.97, "\n".join(texts), transform=ax.transAxes, va="top", fontsize=6)
