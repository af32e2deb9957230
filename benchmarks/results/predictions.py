"""Files with the predictions of one model (npz or parquet), so that estimators do not need the model.

An npz file contains for each dataset SET the arrays "SET/ids" [n] and "SET/predictions" (classes [n], or
the first and last token of answers [n,2]). Optional are "SET/labels" (same shape), the scores
"SET/confidence" and "SET/entropy" (negative) [n], the same with the suffix "_T" for the calibrated model,
and the number "SET/projnorm", the model's ProjNorm on a shift. SET is "validation" for labelled data from
the training distribution, or the name of a shift. A parquet file contains the same as columns, without
projnorm: set, id, prediction (or start, end), label (or label_start, label_end), scores.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError
from ...callbacks.functional.aline import Measure, exact
from ...callbacks.functional.spans import MEASURES
from ...files import reason, whole_file

Array = np.ndarray
VALIDATION = "validation"
SCORES = ("confidence", "entropy", "confidence_T", "entropy_T")


class Predictions(NamedTuple):
    """The predictions of one model on one dataset."""

    ids: Array  # [n]
    classes: Array  # [n], or [n,2] for answers
    labels: Array | None  # like the classes
    scores: dict[str, Array]  # [n] each
    projnorm: float | None = None

    def at(self, ids: Array) -> "Predictions":
        """The predictions for these ids, in their order; all of them must exist."""
        order = np.argsort(self.ids)
        place = order[np.searchsorted(self.ids, ids, sorter=order)]
        labels = None if self.labels is None else self.labels[place]
        scores = {name: score[place] for name, score in self.scores.items()}
        return Predictions(ids, self.classes[place], labels, scores, self.projnorm)


def save(file: Path, sets: dict[str, Predictions]) -> None:
    """Write the predictions of one model atomically."""
    arrays: dict[str, Any] = {}
    for name, own in sets.items():
        arrays |= {f"{name}/ids": own.ids, f"{name}/predictions": own.classes}
        arrays |= {} if own.labels is None else {f"{name}/labels": own.labels}
        arrays |= {} if own.projnorm is None else {f"{name}/projnorm": own.projnorm}
        arrays |= {f"{name}/{key}": np.float32(score) for key, score in own.scores.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as partial, partial.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def load(file: Path) -> dict[str, Predictions]:
    """The predictions of one model, by dataset.

    Raises:
        HoldfastError: if the file is damaged, or lacks an array that every set needs.
    """
    try:
        columns = from_parquet(file) if file.suffix == ".parquet" else from_npz(file)
    except HoldfastError:
        raise
    except Exception as error:  # zip, numpy and arrow errors of many kinds
        raise HoldfastError(
            f"Cannot read predictions from {file} ({reason(error)}). Pass an npz or parquet file of "
            "predictions."
        ) from error
    if VALIDATION not in columns:
        raise HoldfastError(
            f"{file} has no set '{VALIDATION}'; its sets: {', '.join(columns) or 'none'}. Add labelled "
            "data from the training distribution under that name."
        )
    return {name: checked(file, name, arrays) for name, arrays in columns.items()}


def checked(file: Path, name: str, arrays: dict[str, Array]) -> Predictions:
    """Build one set from its arrays; refuses arrays that do not match."""
    lacking = [key for key in ("ids", "predictions") if key not in arrays]
    if name == VALIDATION and "labels" not in arrays:
        lacking.append("labels")
    if lacking:
        raise HoldfastError(f"{file}: the set '{name}' lacks {', '.join(lacking)}. Add them.")
    ids, classes, labels = arrays["ids"], arrays["predictions"], arrays.get("labels")
    scores = {key: arrays[key] for key in SCORES if key in arrays}
    if not np.issubdtype(classes.dtype, np.integer) or classes.shape[1:] not in ((), (2,)):
        raise HoldfastError(
            f"{file}: the predictions of '{name}' are {classes.dtype} {list(classes.shape)}. Pass "
            "integers [n] (classes) or [n,2] (first and last token of answers)."
        )
    if labels is not None and labels.shape != classes.shape:
        raise HoldfastError(
            f"{file}: the labels of '{name}' must have the shape and kind of its predictions."
        )
    if not len(ids) or any(len(array) != len(ids) for array in (classes, *scores.values())):
        raise HoldfastError(
            f"{file}: the arrays of '{name}' are empty or differ in length. Pass one entry per sample."
        )
    if len(np.unique(ids)) != len(ids):
        raise HoldfastError(
            f"{file}: an id of '{name}' occurs twice. Give each sample a unique id."
        )
    norm = arrays.get("projnorm")
    return Predictions(ids, classes, labels, scores, None if norm is None else float(norm))


def from_npz(file: Path) -> dict[str, dict[str, Array]]:
    """The arrays of each set."""
    columns: dict[str, dict[str, Array]] = defaultdict(dict)
    with np.load(file, allow_pickle=False) as arrays:
        for key in arrays.files:
            name, _, column = key.rpartition("/")
            columns[name][column] = arrays[key]
    return columns


def from_parquet(file: Path) -> dict[str, dict[str, Array]]:
    """The arrays of each set, from a table with one row per sample."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise HoldfastError(
            f"{file} needs pyarrow. Install it: pip install 'holdfast[text]'."
        ) from None
    table = parquet.read_table(file).to_pydict()
    columns: dict[str, Any] = {name: np.array(values) for name, values in table.items()}
    if "set" not in columns:
        raise HoldfastError(f"{file} has no column 'set'. Add it, with the dataset of each sample.")
    wide = {"predictions": ("start", "end"), "labels": ("label_start", "label_end")}
    plain = {"ids": "id", "predictions": "prediction", "labels": "label"}
    arrays = {to: columns[name] for to, name in plain.items() if name in columns}
    for to, names in wide.items():
        if set(names) <= columns.keys():
            arrays[to] = np.stack([columns[name] for name in names], 1)
    arrays |= {name: columns[name] for name in SCORES if name in columns}
    return {
        str(name): {to: known(array[columns["set"] == name]) for to, array in arrays.items()}
        for name in dict.fromkeys(columns["set"])
    }


def known(array: Array) -> Array:
    """The array with -1 for unknown numbers."""
    return array if array.dtype != object else np.array([-1 if v is None else v for v in array])


def measures(classes: Array) -> dict[str, Measure]:
    """The measures that compare predictions: accuracy for classes, EM and F1 for answers."""
    return dict(MEASURES) if classes.ndim == 3 else {"accuracy": exact}


def prediction_files(folders: list[Path]) -> dict[Path, list[Path]]:
    """The files of predictions below the folders, grouped by folder; each folder is an ensemble."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for folder in folders:
        names = [folder] if folder.is_file() else sorted(folder.rglob("*"))
        for file in names:
            if file.suffix == ".parquet" or (file.suffix == ".npz" and is_predictions(file)):
                found[file.parent].append(file)
    return dict(found)


def is_predictions(file: Path) -> bool:
    """Whether an npz file has predictions of this format rather than the outputs of a run."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return f"{VALIDATION}/predictions" in arrays.files
    except Exception:  # a file may be damaged in any way
        return False
