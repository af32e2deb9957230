"""`holdfast estimators agree`: estimate accuracy from the agreement of several models."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import HoldfastError, printable
from ...callbacks.functional.aline import Line, mean_absolute_error, mean_percentage_error
from ...run_folder import OUTPUTS
from .agreement_plot import draw, points
from .model_agreement import TRUSTED, Estimates, Models, best_of_both, estimate, from_files, shares
from .predictions import prediction_files
from .runs import Run, collect, grouped
from .text_table import formatted

# Whole-dataset estimates, as in the summaries of DatasetEstimates.
CONFIDENCE = [name + end for name in ("AC", "DoC", "ATC-MC", "ATC-NE") for end in ("", "_T")]


def agree(args: argparse.Namespace) -> None:
    """Estimate accuracy from the agreement of several models (GDE, agreement-on-the-line).

    Reads runs with DatasetEstimates, ensembles from `holdfast ensemble`, and predictions computed
    elsewhere: a folder of npz or parquet files, one per model
    (see holdfast/benchmarks/results/predictions.py).
    """
    several = [*same_images(args.folders), *of_predictions(args.folders, args.together)]
    if not several:
        raise HoldfastError(
            f"Found neither two runs on the same images with {OUTPUTS} nor a folder with the "
            "predictions of two models. Pass folders of runs of different models with the same "
            "DatasetEstimates (adapting: true for adapting methods), of an ensemble, or of npz or "
            "parquet files."
        )
    found = [(models, estimate(models, args.most_agreement)) for models in several]
    if args.figure:
        panels = {
            models.stream.replace("/", "\n", 1): points(
                *shares(models), models.samples, models.measured, args.most_agreement
            )
            for models in several
        }
        print(f"{draw(panels, args.figure)}: both lines")
    if args.json:
        print(json.dumps([as_json(*pair) for pair in found], indent=1))
    else:
        show(found)


def same_images(folders: list[Path]) -> list[Models]:
    """The runs below the folders that stored their predictions, grouped by their images."""
    stored = [run for run in collect(*folders) if (run.folder / OUTPUTS).exists()]
    return [of_runs(runs) for runs in grouped(stored, images_of).values() if len(runs) > 1]


def images_of(run: Run) -> tuple[str, bytes, bytes]:
    """A key that is equal for runs on the same images."""
    with np.load(run.folder / OUTPUTS) as arrays:
        return run.stream_id, arrays["labels"].tobytes(), arrays["val_labels"].tobytes()


def of_runs(runs: list[Run]) -> Models:
    """Combine the runs' predictions, with each run's estimates from its confidences."""
    arrays = [np.load(run.folder / OUTPUTS) for run in runs]
    names = [name for name in CONFIDENCE if all(name in run.summary for run in runs)]
    return Models(
        stream=runs[0].stream,
        seed=runs[0].seed,
        names=[str(run.folder) for run in runs],
        classes=np.stack([outputs["classes"] for outputs in arrays]),
        labels=arrays[0]["labels"],
        val_classes=np.stack([outputs["val_classes"] for outputs in arrays]),
        val_labels=arrays[0]["val_labels"],
        confidence={name: np.array([run.summary[name] for run in runs]) for name in names},
    )


def of_predictions(folders: list[Path], together: bool) -> list[Models]:
    """The ensembles with predictions below the folders; with `together`, all models as one ensemble."""
    found = prediction_files(folders)
    if together and found:
        found = {Path(): [file for files in found.values() for file in files]}
    return [
        models
        for folder, files in found.items()
        if len(files) > 1
        for models in from_files(files, "/".join(folder.parts[-3:]))
    ]


def show(found: list[tuple[Models, Estimates]]) -> None:
    """Print the tables; streams without linear agreement are listed separately."""
    if len(found) == 1:
        models, result = found[0]
        print(printable(f"{models.stream}, seed {models.seed}: {models.measured} in percent"))
        print(formatted(model_table(models, result)))
    else:
        groups = {
            f"R² of the agreement line above {TRUSTED}": [p for p in found if p[1].trusted],
            f"R² of {TRUSTED} or less, or no line": [p for p in found if not p[1].trusted],
        }
        for title, same in ((title, same) for title, same in groups.items() if same):
            errors = formatted(stream_table(same, mean_absolute_error))
            shares = formatted(stream_table(same, mean_percentage_error))
            print(f"{title}: mean absolute error over the models, points\n{errors}\n")
            print(f"{title}: mean absolute percentage error (MAPE)\n{shares}\n")
    print(f"\nLines on probit axes\n{formatted(line_table(found))}")
    trusted = sum(result.trusted for _, result in found)
    print(
        f"\nALine is reliable where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(found)})\nand the models' agreement on source data does not exceed their accuracy."
    )


def model_table(models: Models, result: Estimates) -> pd.DataFrame:
    """One row for each model, and the mean errors over models."""
    shares = {**result.estimates, **best_of_both(result)}
    truth = [""] * len(models.names) if result.truth is None else hundredths(result.truth)
    rows = pd.DataFrame(
        {"model": models.names, models.measured: truth}
        | {name: hundredths(values) for name, values in shares.items()}
    )
    if result.truth is None:
        return rows
    for title, error in (
        ("(mean absolute error)", mean_absolute_error),
        ("(mean absolute percentage error)", mean_percentage_error),
    ):
        errors = hundredths([error(values, result.truth) for values in shares.values()])
        rows.loc[len(rows)] = [title, "", *errors]
    return rows


def hundredths(shares: Any) -> list[str]:
    """Shares in percent with two decimals."""
    return [f"{100 * share:.2f}" for share in shares]


def stream_table(
    found: list[tuple[Models, Estimates]], error: Callable[..., float]
) -> pd.DataFrame:
    """One row per stream with the mean error over the models for each estimate."""
    rows = []
    for models, result in found:
        row = {"stream": models.stream, "seed": str(models.seed), "models": str(len(models.names))}
        row["measure"] = models.measured
        if result.truth is not None:
            for name, values in {**result.estimates, **best_of_both(result)}.items():
                row[name] = f"{100 * error(values, result.truth):.2f}"
        rows.append(row)
    table = pd.DataFrame(rows).fillna("-")
    table["R²"] = [f"{result.r2:.3f}" for _, result in found]
    table["agreement - accuracy, source"] = [f"{100 * result.excess:+.2f}" for _, result in found]
    return table


def line_table(found: list[tuple[Models, Estimates]]) -> pd.DataFrame:
    """Slope, bias and R² of the accuracy and agreement lines of each stream."""
    rows = []
    for models, result in found:
        row = {"stream": models.stream, "measure": models.measured}
        lines = {"accuracy": result.accuracy_line, "agreement": result.agreement_line}
        for kind, line in lines.items():
            texts = ["-"] * 3 if line is None else line_texts(line)
            row |= dict(zip((f"{kind} slope", f"{kind} bias", f"{kind} R²"), texts, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def line_texts(line: Line) -> list[str]:
    return [f"{line.slope:.2f}", f"{line.bias:+.2f}", f"{line.r2:.3f}"]


def as_json(models: Models, result: Estimates) -> dict[str, Any]:
    """The estimates of each model as JSON."""
    lines = {"accuracy_line": result.accuracy_line, "agreement_line": result.agreement_line}
    return {
        **{"stream": models.stream, "seed": models.seed, "models": models.names},
        "measure": models.measured,
        "accuracy": None if result.truth is None else result.truth.tolist(),
        **{name: values.tolist() for name, values in result.estimates.items()},
        "oracle": {name: values.tolist() for name, values in best_of_both(result).items()},
        "r2": None if result.agreement_line is None else result.r2,
        "excess": result.excess,
        **{name: line and line._asdict() for name, line in lines.items()},
    }
