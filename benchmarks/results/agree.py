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
from ...run_folder import OUTPUTS
from .agreement_plot import draw, line_text, points
from .model_agreement import TRUSTED, Estimates, Models, estimate, from_files
from .predictions import prediction_files
from .runs import Run, collect, grouped
from .text_table import formatted

# Whole-dataset estimates, as in the summaries of DatasetEstimates.
CONFIDENCE = [name + end for name in ("AC", "DoC", "ATC-MC", "ATC-NE") for end in ("", "_T")]
ERRORS = ("mean absolute error, points", "mean absolute percentage error (MAPE)")


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
    table = pd.concat(map(estimates_of, found), keys=range(len(found)))  # by stream and model
    gaps = table.drop(columns="accuracy").sub(table["accuracy"], axis=0).abs()
    relative = gaps.div(table["accuracy"].replace(0, np.nan), axis=0)
    errors = [each.groupby(level=0).mean() for each in (gaps, relative)]
    if len(found) == 1:
        models = found[0].models
        rows = [
            table.loc[0],
            *(e.set_axis([f"({t})"]) for t, e in zip(ERRORS, errors, strict=True)),
        ]
        shown = pd.concat(rows[:1] if found[0].truth is None else rows).dropna(axis=1, how="all")
        print(printable(f"{models.stream}, seed {models.seed}: {models.measured} in percent"))
        shown = in_percent(shown.rename(columns={"accuracy": models.measured}))
        print(formatted(shown.reset_index(names="model")))
        return
    ends = {
        "R²": [f"{result.r2:.3f}" for result in found],
        "agreement - accuracy, source": [f"{100 * result.excess:+.2f}" for result in found],
    }
    facts = pd.DataFrame([facts_of(result.models) for result in found]).map(str)
    for title, error in zip(ERRORS, errors, strict=True):
        whole = pd.concat([facts, in_percent(error), pd.DataFrame(ends)], axis=1)
        print(f"{title} (over models)\n{formatted(whole)}\n")


def estimates_of(result: Estimates) -> pd.DataFrame:
    """The accuracy of each model and its estimates, in [0,1]; NaN where unknown."""
    truth = np.nan if result.truth is None else result.truth
    columns = {"accuracy": truth, **result.estimates, **result.oracle}
    return pd.DataFrame(columns, result.models.names)


def in_percent(shares: pd.DataFrame) -> pd.DataFrame:
    """Shares as percentages with two decimals, "-" where unknown."""
    return shares.map(lambda share: "-" if np.isnan(share) else f"{100 * share:.2f}")


def facts_of(models: Models) -> dict[str, Any]:
    """What several models are about."""
    stream, seed, names = models.stream, models.seed, models.names
    return {"stream": stream, "seed": seed, "models": len(names), "measure": models.measured}


def as_json(result: Estimates) -> dict[str, Any]:
    """The estimates of each model as JSON."""
    lines = {"accuracy_line": result.accuracy_line, "agreement_line": result.agreement_line}
    return {
        **facts_of(result.models),
        "models": result.models.names,
        "accuracy": None if result.truth is None else result.truth.tolist(),
        **{name: values.tolist() for name, values in result.estimates.items()},
        "oracle": {name: values.tolist() for name, values in result.oracle.items()},
        "r2": None if result.agreement_line is None else result.r2,
        "excess": result.excess,
        **{name: line and line._asdict() for name, line in lines.items()},
    }
