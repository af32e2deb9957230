"""Files with the predictions of one model, so that estimators do not need the model.

An npz file contains for each dataset SET the arrays "SET/ids" [n] and "SET/predictions" (classes [n], or
the first and last token of answers [n,2]). Optional are "SET/labels" (same shape), the scores
"SET/confidence" and "SET/entropy" (negative) [n], the same with the suffix "_T" for the calibrated model,
and the number "SET/projnorm", the model's ProjNorm on a shift. SET is "validation" for labelled data from
the training distribution, or the name of a shift.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError
from ...files import reason, whole_file
from ...run_folder import ROWS

_Array = np.ndarray
VALIDATION = "validation"
_SCORES = ("confidence", "entropy", "confidence_T", "entropy_T")


class Predictions(NamedTuple):
    """The predictions of one model on one dataset."""

    ids: _Array  # [n]
    classes: _Array  # [n], or [n,2] for answers
    labels: _Array | None  # like the classes
    scores: dict[str, _Array]  # [n] each
    projnorm: float | None = None


def write_predictions(file: Path, sets: dict[str, Predictions]) -> None:
    """Write the predictions of one model atomically."""
    arrays: dict[str, Any] = {}
    for name, predictions in sets.items():
        known = {"labels": predictions.labels, "projnorm": predictions.projnorm}
        known |= {key: np.float32(score) for key, score in predictions.scores.items()}
        arrays |= {f"{name}/ids": predictions.ids, f"{name}/predictions": predictions.classes}
        arrays |= {f"{name}/{key}": array for key, array in known.items() if array is not None}
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as partial, partial.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def read_predictions(file: Path) -> dict[str, Predictions]:
    """The predictions of one model, by dataset and sorted by ids.

    Raises HoldfastError if the file is damaged, or lacks an array that every set needs.
    """
    sets: dict[str, dict[str, _Array]] = defaultdict(dict)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            for key in arrays.files:
                name, _, column = key.rpartition("/")
                sets[name][column] = arrays[key]
    except Exception as error:  # zip and numpy errors of many kinds
        raise HoldfastError(
            f"Cannot read predictions from {file} ({reason(error)}). Pass an npz file of predictions."
        ) from error
    if VALIDATION not in sets:
        raise HoldfastError(
            f"{file} has no set '{VALIDATION}'; its sets: {', '.join(sets) or 'none'}. Add labelled "
            "data from the training distribution under that name."
        )
    return {name: _checked(file, name, arrays) for name, arrays in sets.items()}


def _checked(file: Path, name: str, arrays: dict[str, _Array]) -> Predictions:
    """One set of its arrays.

    Raises HoldfastError if arrays are missing or do not match.
    """
    needed = ("ids", "predictions", *(["labels"] if name == VALIDATION else []))
    if lacking := [key for key in needed if key not in arrays]:
        raise HoldfastError(f"{file}: the set '{name}' lacks {', '.join(lacking)}. Add them.")
    ids, classes, labels = arrays["ids"], arrays["predictions"], arrays.get("labels")
    scores = {key: arrays[key] for key in _SCORES if key in arrays}
    n = len(ids)
    if not (
        np.issubdtype(classes.dtype, np.integer)
        and classes.shape in ((n,), (n, 2))
        and (labels is None or labels.shape == classes.shape)
        and all(score.shape == (n,) for score in scores.values())
        and 0 < n == len(np.unique(ids))
    ):
        shapes = ", ".join(f"{key} {a.dtype} {list(a.shape)}" for key, a in arrays.items())
        raise HoldfastError(
            f"{file}: the arrays of '{name}' do not match ({shapes}). Pass unique ids [n], integer "
            "predictions [n] (classes) or [n,2] (first and last token), labels alike, scores [n]."
        )
    order, norm = np.argsort(ids), arrays.get("projnorm")
    return Predictions(
        ids[order],
        classes[order],
        None if labels is None else labels[order],
        {key: score[order] for key, score in scores.items()},
        None if norm is None else float(norm),
    )


def prediction_files(folders: Iterable[Path]) -> dict[Path, list[Path]]:
    """The npz files below the folders but those of runs, by folder; each folder is an ensemble."""
    ensembles: dict[Path, list[Path]] = defaultdict(list)
    for folder in folders:
        for file in [folder] if folder.is_file() else sorted(folder.rglob("*.npz")):
            if not (file.parent / ROWS).exists():
                ensembles[file.parent].append(file)
    return dict(ensembles)
