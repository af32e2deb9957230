"""`holdfast estimators agree`: estimate accuracy from the agreement of several models.

Reads runs with DatasetEstimates, ensembles from `holdfast train ensemble`, and predictions computed
elsewhere: a folder of npz files, one per model (see `predictions`).
"""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import HoldfastError
from ...run_folder import OUTPUTS
from .agreement_plot import draw, line_text, points
from .model_agreement import TRUSTED, Estimates, Models, estimate, from_files, from_runs
from .predictions import prediction_files
from .text_table import formatted

FACTS = ["stream", "seed", "measure", "model"]


def agree(args: Namespace) -> None:
    """Print the estimates for each model on each stream, and their errors for each stream."""
    several = [*from_runs(args.folders), *of_ensembles(args.folders, args.together)]
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
    each = list(map(estimates_of, found))
    print("Accuracy of each model and its estimates, in percent")
    print(formatted(pd.concat(each).map(as_text)))
    print("\nMean absolute errors over the models, in points, and lines on probit axes")
    print(formatted(pd.DataFrame(map(errors_of, found, each)).map(as_text)))
    trusted = sum(result.r2 > TRUSTED for result in found)
    print(
        f"\nALine is reliable where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(found)})\nand the models' agreement on source data does not exceed their accuracy."
    )


def of_ensembles(folders: list[Path], together: bool) -> Iterator[Models]:
    """The ensembles with predictions below the folders; with `together`, all models as one ensemble."""
    found = prediction_files(folders)
    if together and found:
        found = {Path(): [file for files in found.values() for file in files]}
    for folder, files in found.items():
        if len(files) > 1:
            yield from from_files(files, "/".join(folder.parts[-3:]))


def estimates_of(result: Estimates) -> pd.DataFrame:
    """The accuracy of each model and its estimates, in [0,1]; NaN where unknown."""
    models, truth = result.models, np.nan if result.truth is None else result.truth
    facts = dict(
        zip(FACTS, (models.stream, models.seed, models.measured, models.names), strict=True)
    )
    return pd.DataFrame({**facts, "accuracy": truth, **result.estimates, **result.oracle})


def errors_of(result: Estimates, each: pd.DataFrame) -> dict[str, Any]:
    """The mean absolute errors of a stream's estimates, and its lines."""
    errors = each.drop(columns=[*FACTS, "accuracy"]).sub(each["accuracy"], axis=0).abs().mean()
    return {
        **each.iloc[0][FACTS[:-1]],
        **errors,
        "accuracy line": line_text(result.accuracy_line),
        "agreement line": line_text(result.agreement_line),
        "agreement - accuracy, source": result.excess,
    }


def as_text(value: Any) -> str:
    """A share in percent with two decimals, "-" if unknown; anything else as it is."""
    if pd.isna(value):
        return "-"
    return f"{100 * value:.2f}" if isinstance(value, float) else str(value)
