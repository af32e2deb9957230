"""Accuracy without labels from several models: naive agreement (GDE) and agreement-on-the-line."""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import HoldfastError
from ...callbacks.dataset_estimates import OUTPUTS
from ...callbacks.functional.agreement import aline, naive_agreement
from ..results import report
from ..results.text import aligned

Array = np.ndarray
TRUSTED = 0.95  # least R^2 of the agreement line (Baek et al. 2022)


class Models(NamedTuple):
    """Predictions of several models on one stream, and on labelled data from their source."""

    stream: str
    seed: int
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


def collect(folders: list[Path]) -> list[Models]:
    """The runs below the folders that kept their predictions, those on the same images together."""
    groups: dict[tuple[str, bytes, bytes], list[report.Run]] = {}
    for folder in folders:
        for run in report.collect(folder):
            if (path := Path(run["folder"]) / OUTPUTS).exists():
                with np.load(path) as own:
                    images = own["labels"].tobytes(), own["val_labels"].tobytes()
                groups.setdefault((run["stream_id"], *images), []).append(run)
    found = [together(runs) for runs in groups.values() if len(runs) > 1]
    if not found:
        raise HoldfastError(
            f"no two runs on the same images of a stream have an {OUTPUTS}: give the folders of runs of "
            "different models with the same DatasetEstimates (adapting: true for methods that adapt)."
        )
    return found


def together(runs: list[report.Run]) -> Models:
    """Their predictions side by side."""
    arrays = [np.load(Path(run["folder"]) / OUTPUTS) for run in runs]
    classes, val_classes = (
        np.stack([a[name] for a in arrays]) for name in ("classes", "val_classes")
    )
    own = runs[0]["stream"], runs[0]["seed"], [run["folder"] for run in runs]
    return Models(*own, classes, arrays[0]["labels"], val_classes, arrays[0]["val_labels"])


def estimate(models: Models) -> Estimates:
    """Naive agreement, and with at least three models that differ, ALine-S and ALine-D."""
    truth = (models.classes == models.labels).mean(1)
    inside = (models.val_classes == models.val_labels).mean(1)
    excess = float((naive_agreement(models.val_classes) - inside).mean())
    found = {"agreement": naive_agreement(models.classes)}
    try:
        line = aline(models.val_classes, models.val_labels, models.classes)
    except HoldfastError:
        return Estimates(truth, found, float("nan"), excess)
    found |= {"ALine-S": line.aline_s, "ALine-D": line.aline_d}
    return Estimates(truth, found, line.agreement_line.r2, excess)


def model_table(models: Models, answer: Estimates) -> str:
    """One line for each model."""
    lines = [["model", "accuracy", *answer.estimates]]
    for number, name in enumerate(models.names):
        values = [answer.truth[number], *(e[number] for e in answer.estimates.values())]
        lines.append([name, *(f"{100 * value:.2f}" for value in values)])
    errors = [np.abs(e - answer.truth).mean() for e in answer.estimates.values()]
    lines.append(["(mean absolute error)", "", *(f"{100 * error:.2f}" for error in errors)])
    return aligned(lines)


def stream_table(found: list[tuple[Models, Estimates]]) -> str:
    """One line for each stream: mean absolute errors over the models."""
    names = list(dict.fromkeys(name for _, answer in found for name in answer.estimates))
    lines = [["stream", "seed", "models", *names, "R²", "agreement - accuracy, source"]]
    for models, answer in found:
        cells = []
        for name in names:
            e = answer.estimates.get(name)
            cells.append("-" if e is None else f"{100 * np.abs(e - answer.truth).mean():.2f}")
        facts = [f"{answer.r2:.3f}", f"{100 * answer.excess:+.2f}"]
        count = str(len(models.names))
        lines.append([models.stream, str(models.seed), count, *cells, *facts])
    return aligned(lines)


def main(argv: list[str]) -> int:
    """Print a line for each model of a single stream, else one for each stream."""
    parser = argparse.ArgumentParser(prog="holdfast estimators agree", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="of runs, or of suites")
    parser.add_argument("--json", action="store_true", help="all estimates, for machines")
    args = parser.parse_args(argv)
    found = [(models, estimate(models)) for models in collect(args.folders)]
    if args.json:
        print(json.dumps([as_json(*pair) for pair in found], indent=1))
        return 0
    if len(found) == 1:
        models, answer = found[0]
        print(f"{models.stream}, seed {models.seed}: accuracy in percent")
        print(model_table(models, answer))
    else:
        print("Mean absolute error over the models, points")
        print(stream_table(found))
    trusted = sum(answer.r2 > TRUSTED for _, answer in found)
    print(
        f"\nALine is to be trusted where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(found)}),\nand where the models agree no more than they are right on source data."
    )
    return 0


def as_json(models: Models, answer: Estimates) -> dict:
    estimates = {name: values.tolist() for name, values in answer.estimates.items()}
    facts = {"stream": models.stream, "seed": models.seed, "models": models.names}
    return {
        **facts,
        "accuracy": answer.truth.tolist(),
        **estimates,
        "r2": None if np.isnan(answer.r2) else answer.r2,
    }
