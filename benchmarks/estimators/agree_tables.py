"""The tables of `holdfast estimators agree`."""

import numpy as np

from ...callbacks.functional.agreement import Line, mean_absolute_error, mean_percentage_error
from ..results.agreement import Estimates, Models, best_of_both
from ..results.text import aligned

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
    """One line for each stream: mean absolute errors over the models, or percentages of the truth."""
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
    """Slope, bias and R² of both lines of each stream."""
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
    """The three numbers of a line."""
    return (
        ["-"] * 3 if line is None else [f"{line.slope:.2f}", f"{line.bias:+.2f}", f"{line.r2:.3f}"]
    )


def as_json(models: Models, result: Estimates) -> dict:
    """The estimates for each model, for programs."""
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
