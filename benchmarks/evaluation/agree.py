"""Estimate accuracy without labels from several models: naive agreement (GDE) and agreement-on-the-line.

Reads runs with DatasetEstimates, ensembles from `holdfast ensemble`, and predictions computed elsewhere: a
folder of npz or parquet files, one per model (see holdfast/benchmarks/results/predictions.py).
"""

import json
from pathlib import Path

import numpy as np

from ... import HoldfastError, printable
from ...callbacks.functional.aline import Line, mean_absolute_error, mean_percentage_error
from ...command_parser import Parser
from ...run_folder import OUTPUTS
from ..results.agreement_plot import draw, points
from ..results.model_agreement import (
    TRUSTED,
    Estimates,
    Models,
    best_of_both,
    estimate,
    from_files,
    shares,
)
from ..results.predictions import prediction_files
from ..results.runs import Run, collect, grouped
from ..results.text_table import aligned

# Whole-dataset estimates, as in the summaries of DatasetEstimates.
CONFIDENCE = [name + end for name in ("AC", "DoC", "ATC-MC", "ATC-NE") for end in ("", "_T")]


def same_images(folders: list[Path]) -> list[Models]:
    """The runs below the folders that stored their predictions, grouped by their images."""
    kept = [run for run in collect(*folders) if (run.folder / OUTPUTS).exists()]
    groups = [runs for runs in grouped(kept, images_of).values() if len(runs) > 1]
    return [of_runs(runs) for runs in groups]


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
        classes=np.stack([own["classes"] for own in arrays]),
        labels=arrays[0]["labels"],
        val_classes=np.stack([own["val_classes"] for own in arrays]),
        val_labels=arrays[0]["val_labels"],
        confidence={name: np.array([run.summary[name] for run in runs]) for name in names},
    )


def of_predictions(folders: list[Path], together: bool) -> list[Models]:
    """The ensembles with predictions below the folders; with `together`, all models as one ensemble."""
    found = prediction_files(folders)
    if together and found:
        found = {Path(): [file for files in found.values() for file in files]}
    models: list[Models] = []
    for folder, files in found.items():
        if len(files) > 1:
            models += from_files(files, "/".join(folder.parts[-3:]))
    return models


Array = np.ndarray


def model_table(models: Models, result: Estimates) -> str:
    """One line for each model."""
    estimates = {**result.estimates, **best_of_both(result)}
    lines = [["model", models.measured, *estimates]]
    for number, name in enumerate(models.names):
        values = [float(e[number]) for e in estimates.values()]
        truth = "-" if result.truth is None else f"{100 * result.truth[number]:.2f}"
        lines.append([name, truth, *(f"{100 * value:.2f}" for value in values)])
    if result.truth is not None:
        for title, error in (
            ("(mean absolute error)", mean_absolute_error),
            ("(mean absolute percentage error)", mean_percentage_error),
        ):
            errors = [error(e, result.truth) for e in estimates.values()]
            lines.append([title, "", *(f"{100 * e:.2f}" for e in errors)])
    return aligned(lines)


def stream_table(found: list[tuple[Models, Estimates]], percentage: bool = False) -> str:
    """One line per stream: the mean absolute (or absolute percentage) error over the models."""
    error = mean_percentage_error if percentage else mean_absolute_error
    all_estimates = [{**result.estimates, **best_of_both(result)} for _, result in found]
    names = list(dict.fromkeys(name for own in all_estimates for name in own))
    lines = [["stream", "seed", "models", "measure", *names, "R²", "agreement - accuracy, source"]]
    for (models, result), own in zip(found, all_estimates, strict=True):
        errors = []
        for name in names:
            if name in own and result.truth is not None:
                errors.append(f"{100 * error(own[name], result.truth):.2f}")
            else:
                errors.append("-")
        facts = [f"{result.r2:.3f}", f"{100 * result.excess:+.2f}"]
        count = str(len(models.names))
        lines.append([models.stream, str(models.seed), count, models.measured, *errors, *facts])
    return aligned(lines)


def line_table(found: list[tuple[Models, Estimates]]) -> str:
    """Slope, bias and R² of the accuracy and agreement lines of each stream."""
    lines = [
        [
            "stream",
            "measure",
            *(f"{kind} {c}" for kind in ("accuracy", "agreement") for c in COLUMNS),
        ]
    ]
    for models, result in found:
        both = (*shown(result.accuracy_line), *shown(result.agreement_line))
        lines.append([models.stream, models.measured, *both])
    return aligned(lines)


COLUMNS = ("slope", "bias", "R²")


def shown(line: Line | None) -> list[str]:
    """Slope, bias and R² of a line as text; "-" if there is no line."""
    return (
        ["-"] * 3 if line is None else [f"{line.slope:.2f}", f"{line.bias:+.2f}", f"{line.r2:.3f}"]
    )


def as_json(models: Models, result: Estimates) -> dict:
    """The estimates of each model as JSON."""
    facts = {"stream": models.stream, "seed": models.seed, "models": models.names}
    lines = {"accuracy_line": result.accuracy_line, "agreement_line": result.agreement_line}
    return {
        **facts,
        "measure": models.measured,
        "accuracy": None if result.truth is None else result.truth.tolist(),
        **{name: values.tolist() for name, values in result.estimates.items()},
        "oracle": {name: values.tolist() for name, values in best_of_both(result).items()},
        "r2": None if result.agreement_line is None else result.r2,
        "excess": result.excess,
        **{name: line and line._asdict() for name, line in lines.items()},
    }


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators agree", __doc__, "runs/ensembles/glyphs --figure lines.png")
    parser.add("folders", type=Path, nargs="+", help="folders of runs, suites or predictions")
    parser.add(
        "--most-agreement",
        type=float,
        metavar="SHARE",
        help="exclude pairs whose in-distribution agreement is SHARE or more (official notebook: 0.95)",
    )
    parser.flag("--together", "treat all predictions as one ensemble of several base models")
    parser.add("--figure", type=Path, help="draw both lines on probit axes to this file")
    parser.flag("--json", "print all estimates as JSON")
    return parser


def main(argv: list[str]) -> int:
    """Print one line per model for a single stream, or one line per stream for several."""
    args = parser().parse_args(argv)
    all_models = [*same_images(args.folders), *of_predictions(args.folders, args.together)]
    if not all_models:
        raise HoldfastError(
            f"Found neither two runs on the same images with {OUTPUTS} nor a folder with the "
            "predictions of two models. Pass folders of runs of different models with the same "
            "DatasetEstimates (adapting: true for adapting methods), of an ensemble, or of npz or "
            "parquet files."
        )
    found = [(models, estimate(models, args.most_agreement)) for models in all_models]
    if args.figure:
        panels = {
            models.stream.replace("/", "\n", 1): points(
                *shares(models), models.samples, models.measured, args.most_agreement
            )
            for models in all_models
        }
        print(f"{draw(panels, args.figure)}: both lines")
    if args.json:
        print(json.dumps([as_json(*pair) for pair in found], indent=1))
        return 0
    show(found)
    return 0


def show(found: list[tuple[Models, Estimates]]) -> None:
    """Print the tables; streams without linear agreement are listed separately."""
    if len(found) == 1:
        models, result = found[0]
        print(printable(f"{models.stream}, seed {models.seed}: {models.measured} in percent"))
        print(model_table(models, result))
    else:
        groups = {
            f"R² of the agreement line above {TRUSTED}": [p for p in found if p[1].trusted],
            f"R² of {TRUSTED} or less, or no line": [p for p in found if not p[1].trusted],
        }
        for title, own in groups.items():
            if own:
                print(
                    f"{title}: mean absolute error over the models, points\n{stream_table(own)}\n"
                )
                percentages = stream_table(own, percentage=True)
                print(f"{title}: mean absolute percentage error (MAPE)\n{percentages}\n")
    print(f"\nLines on probit axes\n{line_table(found)}")
    trusted = sum(result.trusted for _, result in found)
    print(
        f"\nALine is reliable where R² of the agreement line exceeds {TRUSTED} (here {trusted} of "
        f"{len(found)})\nand the models' agreement on source data does not exceed their accuracy."
    )
