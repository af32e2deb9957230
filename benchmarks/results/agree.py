"""`holdfast estimators agree`: estimate accuracy from the agreement of several models.

Reads runs with DatasetEstimates, ensembles from `holdfast train ensemble`, and predictions computed
elsewhere: a folder of npz files, one per model (see `predictions`).
"""

import json
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import HoldfastError, printable
from ...callbacks.functional.aline import mean_absolute_error, mean_percentage_error
from ...run_folder import OUTPUTS
from .agreement_plot import draw, line_text, points
from .model_agreement import TRUSTED, Estimates, Models, estimate, from_files
from .predictions import prediction_files
from .runs import Run, collect, grouped
from .text_table import formatted

# Whole-dataset estimates, as in the summaries of DatasetEstimates.
CONFIDENCE = [name + end for name in ("AC", "DoC", "ATC-MC", "ATC-NE") for end in ("", "_T")]
ERRORS = {
    "mean absolute error, points": mean_absolute_error,
    "mean absolute percentage error (MAPE)": mean_percentage_error,
}


def agree(args: Namespace) -> None:
    """Print one row per model for a single stream, or one row per stream for several."""
    several = [*same_images(args.folders), *of_predictions(args.folders, args.together)]
    if not several:
        raise HoldfastError(
            f"Found neither two runs on the same images with {OUTPUTS} nor a folder with the "
            "predictions of two models. Pass folders of runs of different models with the same "
            "DatasetEstimates (adapting: true for adapting methods), of an ensemble, or of npz files."
        )
    found = list(map(estimate, several))
    if args.figure:
        names = [result.models.stream.replace("/", "\n", 1) for result in found]
        panels = dict(zip(names, map(points, found), strict=True))
        print(f"{draw(panels, args.figure)}: both lines")
    if args.json:
        print(json.dumps(list(map(as_json, found)), indent=1))
        return
    print_tables(found)
    print("\nLines on probit axes")
    for result in found:
        accuracy, agreement = map(line_text, (result.accuracy_line, result.agreement_line))
        name = printable(f"{result.models.stream} ({result.models.measured})")
        print(f"{name}: accuracy {accuracy}; agreement {agreement}")
    trusted = sum(result.trusted for result in found)
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


def of_predictions(folders: list[Path], together: bool) -> Iterable[Models]:
    """The ensembles with predictions below the folders; with `together`, all models as one ensemble."""
    found = prediction_files(folders)
    if together and found:
        found = {Path(): [file for files in found.values() for file in files]}
    for folder, files in found.items():
        if len(files) > 1:
            yield from from_files(files, "/".join(folder.parts[-3:]))


# ---- tables ------------------------------------------------------------------------------------------


def print_tables(found: list[Estimates]) -> None:
    """Print the models of a single stream, or for several the errors on each stream."""
    if len(found) > 1:
        for title in ERRORS:
            print(f"{title} (over models)\n{formatted(stream_table(found, title))}\n")
        return
    (result,) = found
    models, table = result.models, estimates_of(result)
    if result.truth is not None:
        table.insert(0, models.measured, result.truth)
        table = pd.concat([table, errors_of(result).rename(index=lambda title: f"({title})")])
    print(printable(f"{models.stream}, seed {models.seed}: {models.measured} in percent"))
    print(formatted(in_percent(table).reset_index(names="model")))


def stream_table(found: list[Estimates], title: str) -> pd.DataFrame:
    """One row per stream with one of ERRORS over the models for each estimate."""
    facts = {
        "stream": [result.models.stream for result in found],
        "seed": [str(result.models.seed) for result in found],
        "models": [str(len(result.models.names)) for result in found],
        "measure": [result.models.measured for result in found],
    }
    errors = in_percent(pd.DataFrame([errors_of(result).loc[title] for result in found]))
    table = pd.concat([pd.DataFrame(facts), errors.reset_index(drop=True)], axis=1)
    table["R²"] = [f"{result.r2:.3f}" for result in found]
    table["agreement - accuracy, source"] = [f"{100 * result.excess:+.2f}" for result in found]
    return table


def estimates_of(result: Estimates) -> pd.DataFrame:
    """One row per model and one column per estimate, in [0,1]."""
    return pd.DataFrame({**result.estimates, **result.oracle}, result.models.names)


def errors_of(result: Estimates) -> pd.DataFrame:
    """Each of ERRORS (rows) of each estimate (columns) over the models; empty without labels."""
    table = estimates_of(result)
    if result.truth is None:
        return pd.DataFrame(index=list(ERRORS))
    return pd.DataFrame(
        {t: table.apply(error, args=(result.truth,)) for t, error in ERRORS.items()}
    ).T


def in_percent(shares: pd.DataFrame) -> pd.DataFrame:
    """Shares as percentages with two decimals, "-" where unknown."""
    return shares.map(lambda share: "-" if np.isnan(share) else f"{100 * share:.2f}")


def as_json(result: Estimates) -> dict[str, Any]:
    """The estimates of each model as JSON."""
    models = result.models
    lines = {"accuracy_line": result.accuracy_line, "agreement_line": result.agreement_line}
    return {
        "stream": models.stream,
        "seed": models.seed,
        "models": models.names,
        "measure": models.measured,
        "accuracy": None if result.truth is None else result.truth.tolist(),
        **{name: values.tolist() for name, values in result.estimates.items()},
        "oracle": {name: values.tolist() for name, values in result.oracle.items()},
        "r2": None if result.agreement_line is None else result.r2,
        "excess": result.excess,
        **{name: line and line._asdict() for name, line in lines.items()},
    }
