"""`holdfast estimators agree`: estimate accuracy from the agreement of several models.

Reads runs with DatasetEstimates, ensembles from `holdfast train ensemble`, and predictions computed
elsewhere: a folder of npz or parquet files, one per model (see `predictions`).
"""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import HoldfastError, printable
from ...callbacks.functional.aline import mean_absolute_error, mean_percentage_error
from ...run_folder import OUTPUTS
from .agreement_plot import draw, line_text, points
from .model_agreement import TRUSTED, Estimates, Models, best_of_both, estimate, from_files, shares
from .predictions import prediction_files
from .runs import Run, collect, grouped
from .text_table import formatted

# Whole-dataset estimates, as in the summaries of DatasetEstimates.
CONFIDENCE = [name + end for name in ("AC", "DoC", "ATC-MC", "ATC-NE") for end in ("", "_T")]
ERRORS = {
    "mean absolute error, points": mean_absolute_error,
    "mean absolute percentage error (MAPE)": mean_percentage_error,
}
Found = list[tuple[Models, Estimates]]


def agree(args: Namespace) -> None:
    """Print one row per model for a single stream, or one row per stream for several."""
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
        return
    if len(found) == 1:
        models = several[0]
        print(printable(f"{models.stream}, seed {models.seed}: {models.measured} in percent"))
        print(formatted(model_table(*found[0])))
    else:
        for title in ERRORS:
            print(f"{title} (over models)\n{formatted(stream_table(found, title))}\n")
    print("\nLines on probit axes")
    for models, result in found:
        accuracy, agreement = map(line_text, (result.accuracy_line, result.agreement_line))
        name = printable(f"{models.stream} ({models.measured})")
        print(f"{name}: accuracy {accuracy}; agreement {agreement}")
    trusted = sum(result.trusted for _, result in found)
    print(
        f"\nALine is reliable where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(found)})\nand the models' agreement on source data does not exceed their accuracy."
    )


# ---- models ------------------------------------------------------------------------------------------


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


# ---- tables ------------------------------------------------------------------------------------------


def model_table(models: Models, result: Estimates) -> pd.DataFrame:
    """One row for each model, and the mean errors over models."""
    estimates = {**result.estimates, **best_of_both(result)}
    table = pd.DataFrame(estimates, models.names)
    if result.truth is not None:
        table.insert(0, models.measured, result.truth)
        for title, error in ERRORS.items():
            errors = {name: error(shares, result.truth) for name, shares in estimates.items()}
            table.loc[f"({title})"] = pd.Series(errors)
    return in_percent(table).reset_index(names="model")


def stream_table(found: Found, title: str) -> pd.DataFrame:
    """One row per stream with one of ERRORS over the models for each estimate."""
    errors = [
        {n: ERRORS[title](v, r.truth) for n, v in {**r.estimates, **best_of_both(r)}.items()}
        if r.truth is not None
        else {}
        for _, r in found
    ]
    table = in_percent(pd.DataFrame(errors))
    facts = {
        "stream": [models.stream for models, _ in found],
        "seed": [str(models.seed) for models, _ in found],
        "models": [str(len(models.names)) for models, _ in found],
        "measure": [models.measured for models, _ in found],
    }
    table = pd.concat([pd.DataFrame(facts), table], axis=1)
    table["R²"] = [f"{result.r2:.3f}" for _, result in found]
    table["agreement - accuracy, source"] = [f"{100 * result.excess:+.2f}" for _, result in found]
    return table


def in_percent(shares: pd.DataFrame) -> pd.DataFrame:
    """Shares as percentages with two decimals, "-" where unknown."""
    return shares.map(lambda share: "-" if np.isnan(share) else f"{100 * share:.2f}")


def as_json(models: Models, result: Estimates) -> dict[str, Any]:
    """The estimates of each model as JSON."""
    lines = {"accuracy_line": result.accuracy_line, "agreement_line": result.agreement_line}
    return {
        "stream": models.stream,
        "seed": models.seed,
        "models": models.names,
        "measure": models.measured,
        "accuracy": None if result.truth is None else result.truth.tolist(),
        **{name: values.tolist() for name, values in result.estimates.items()},
        "oracle": {name: values.tolist() for name, values in best_of_both(result).items()},
        "r2": None if result.agreement_line is None else result.r2,
        "excess": result.excess,
        **{name: line and line._asdict() for name, line in lines.items()},
    }
