"""Accuracy without labels from several models: naive agreement (GDE) and agreement-on-the-line."""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...callbacks.functional.agreement import aline, naive_agreement
from ...run_folder import OUTPUTS
from ..results.runs import Run, collect, grouped
from ..results.text import aligned

Array = np.ndarray
TRUSTED = 0.95  # least R^2 of the agreement line (Baek et al. 2022)


class Models(NamedTuple):
    """Predictions of several models on one stream, and on labelled data from their source."""

    stream: str
    seed: int | None
    names: list[str]
    classes: Array  # [models,n]
    labels: Array  # [n]
    val_classes: Array  # [models,m]
    val_labels: Array  # [m]


class Estimates(NamedTuple):
    """Accuracies in [0,1] for each model, and how far the agreement line can be trusted."""

    truth: Array
    estimates: dict[str, Array]
    r2: float  # NaN with two models, or with models that are too much alike
    excess: float  # agreement less accuracy in distribution: models made alike have it above 0


def same_images(folders: list[Path]) -> list[Models]:
    """The runs below the folders that kept their predictions, those on the same images together.

    Raises:
        HoldfastError: if no two are on the same images.
    """
    kept = [run for run in collect(*folders) if (run.folder / OUTPUTS).exists()]
    groups = [runs for runs in grouped(kept, images_of).values() if len(runs) > 1]
    if not groups:
        raise HoldfastError(
            f"no two runs on the same images of a stream have an {OUTPUTS}: give the folders of runs of "
            "different models with the same DatasetEstimates (adapting: true for methods that adapt)."
        )
    return [stacked(runs) for runs in groups]


def images_of(run: Run) -> tuple[str, bytes, bytes]:
    """Equal for runs that predicted the same images."""
    with np.load(run.folder / OUTPUTS) as arrays:
        return run.stream_id, arrays["labels"].tobytes(), arrays["val_labels"].tobytes()


def stacked(runs: list[Run]) -> Models:
    """Their predictions side by side."""
    arrays = [np.load(run.folder / OUTPUTS) for run in runs]
    return Models(
        stream=runs[0].stream,
        seed=runs[0].seed,
        names=[str(run.folder) for run in runs],
        classes=np.stack([own["classes"] for own in arrays]),
        labels=arrays[0]["labels"],
        val_classes=np.stack([own["val_classes"] for own in arrays]),
        val_labels=arrays[0]["val_labels"],
    )


def estimate(models: Models) -> Estimates:
    """Naive agreement, and with at least three models that differ, ALine-S and ALine-D."""
    truth = (models.classes == models.labels).mean(1)
    inside = (models.val_classes == models.val_labels).mean(1)
    excess = float((naive_agreement(models.val_classes) - inside).mean())
    estimates = {"agreement": naive_agreement(models.classes)}
    try:
        line = aline(models.val_classes, models.val_labels, models.classes)
    except HoldfastError:
        return Estimates(truth, estimates, float("nan"), excess)
    estimates |= {"ALine-S": line.aline_s, "ALine-D": line.aline_d}
    return Estimates(truth, estimates, line.agreement_line.r2, excess)


def model_table(models: Models, result: Estimates) -> str:
    """One line for each model."""
    lines = [["model", "accuracy", *result.estimates]]
    for number, name in enumerate(models.names):
        values = [result.truth[number], *(e[number] for e in result.estimates.values())]
        lines.append([name, *(f"{100 * value:.2f}" for value in values)])
    errors = [np.abs(e - result.truth).mean() for e in result.estimates.values()]
    lines.append(["(mean absolute error)", "", *(f"{100 * error:.2f}" for error in errors)])
    return aligned(lines)


def stream_table(found: list[tuple[Models, Estimates]]) -> str:
    """One line for each stream: mean absolute errors over the models."""
    names = list(dict.fromkeys(name for _, result in found for name in result.estimates))
    lines = [["stream", "seed", "models", *names, "R²", "agreement - accuracy, source"]]
    for models, result in found:
        errors = []
        for name in names:
            e = result.estimates.get(name)
            errors.append("-" if e is None else f"{100 * np.abs(e - result.truth).mean():.2f}")
        facts = [f"{result.r2:.3f}", f"{100 * result.excess:+.2f}"]
        count = str(len(models.names))
        lines.append([models.stream, str(models.seed), count, *errors, *facts])
    return aligned(lines)


def main(argv: list[str]) -> int:
    """Print a line for each model of a single stream, else one for each stream."""
    parser = argparse.ArgumentParser(prog="holdfast estimators agree", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="of runs, or of suites")
    parser.add_argument("--json", action="store_true", help="all estimates, for machines")
    args = parser.parse_args(argv)
    found = [(models, estimate(models)) for models in same_images(args.folders)]
    if args.json:
        print(json.dumps([as_json(*pair) for pair in found], indent=1))
        return 0
    if len(found) == 1:
        models, result = found[0]
        print(f"{models.stream}, seed {models.seed}: accuracy in percent")
        print(model_table(models, result))
    else:
        print("Mean absolute error over the models, points")
        print(stream_table(found))
    trusted = sum(result.r2 > TRUSTED for _, result in found)
    print(
        f"\nALine is to be trusted where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(found)}),\nand where the models agree no more than they are right on source data."
    )
    return 0


def as_json(models: Models, result: Estimates) -> dict:
    """The estimates for each model, for programs."""
    estimates = {name: values.tolist() for name, values in result.estimates.items()}
    facts = {"stream": models.stream, "seed": models.seed, "models": models.names}
    return {
        **facts,
        "accuracy": result.truth.tolist(),
        **estimates,
        "r2": None if np.isnan(result.r2) else result.r2,
    }
