"""The accuracy of a source model under each pair of corruptions, from which CCC's paths are computed."""

import json
import pickle
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import HoldfastError
from ..files import reason, whole_file
from .corruptions import CORRUPTIONS, SHORT

STEP, LEVELS = 0.25, 21  # severities 0, 0.25, ..., 5 of both corruptions
WHOLE = 4  # every fourth, the whole severities, is measured where the others are interpolated
_MOST = 2**23  # bytes of CCC's published pickle, which has less than one million
ASSETS = Path(__file__).parent / "assets"
_ORIGIN = (
    "https://nc.mlcloud.uni-tuebingen.de/index.php/s/izTMnXkaHoNBZT4/download/"
    "ccc_accuracy_matrix.pickle"
)


class Calibration(NamedTuple):
    """Accuracies in percent, [a, b, i, j]: corruption a at severity i/4, then b at j/4."""

    names: tuple[str, ...]
    accuracy: np.ndarray  # [n,n,21,21]; NaN where it was not measured
    provenance: dict[str, Any]

    @classmethod
    def load(cls, name: str | Path) -> "Calibration":
        """Read an embedded calibration by its name, or a file made by `holdfast calibrate`.

        Raises HoldfastError if there is none, or the file is damaged.
        """
        embedded = ASSETS / f"calibration-{name}.npz"
        path = embedded if embedded.exists() else Path(name)
        if not path.is_file():
            known = sorted(p.stem.removeprefix("calibration-") for p in ASSETS.glob("calib*.npz"))
            raise HoldfastError(
                f"Unknown calibration '{name}'. Pass an embedded one ({', '.join(known)}) or a "
                "file written by `holdfast calibrate`."
            )
        try:
            with np.load(path) as file:
                names = tuple(str(name) for name in file["names"])
                accuracy, provenance = file["accuracy"], json.loads(str(file["provenance"]))
            n = len(names)
            if accuracy.dtype.kind != "f" or accuracy.shape != (n, n, LEVELS, LEVELS):
                raise ValueError(f"it is not a table of {n} x {n} x 21 x 21 numbers")
            if not _in_percent(accuracy):
                raise ValueError("its accuracies are not 0 to 100 percent")
            return cls(names, accuracy, provenance)
        except Exception as error:  # a damaged file makes the readers raise many kinds
            raise HoldfastError(
                f"{path} cannot be read as a calibration ({reason(error)}). Remove it and measure "
                "it again, or convert CCC's published file with `holdfast calibrate --official`."
            ) from error

    @classmethod
    def load_official(cls, path: Path) -> "Calibration":
        """Convert CCC's published pickle: {"n1_<a>_n2_<b>": [21,21] percent} of the ordered pairs.

        Raises HoldfastError if the file asks for anything but arrays, or is not of this form.
        """
        accuracy = np.full((len(CORRUPTIONS),) * 2 + (LEVELS,) * 2, np.nan, dtype=np.float32)
        pairs = list(product(enumerate(SHORT.get(name, name) for name in CORRUPTIONS), repeat=2))
        try:
            if path.stat().st_size > _MOST:
                raise ValueError(f"it has more than {_MOST:,} bytes")
            with path.open("rb") as file:
                matrices = _ArrayUnpickler(file).load()
            for (a, first), (b, second) in pairs:
                if (key := f"n1_{first}_n2_{second}") in matrices:
                    matrix = np.asarray(matrices[key], np.float64)
                    if matrix.shape != (LEVELS, LEVELS) or not _in_percent(matrix):
                        raise ValueError(f"{key} is not 21 x 21 percentages")
                    accuracy[a, b] = matrix
            if np.isnan(accuracy).all():
                raise ValueError("it has no key like n1_gaussian_noise_n2_fog")
        except Exception as error:  # a damaged pickle makes the reader raise many kinds
            raise HoldfastError(
                f"{path} is not a pickle of arrays ({reason(error)}). Download it from {_ORIGIN}."
            ) from error
        provenance: dict[str, Any] = {"backbone": "torchvision/resnet50.IMAGENET1K_V1", "size": 224}
        provenance |= {"source": "5,000 images of ImageNet's validation set", "origin": _ORIGIN}
        provenance["table"] = "imagenet"
        return cls(CORRUPTIONS, accuracy, provenance)

    def save(self, path: Path) -> None:
        """Write the file atomically, and its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(
                file,
                names=np.array(self.names),
                accuracy=self.accuracy.astype(np.float32),
                provenance=np.array(json.dumps(self.provenance)),
            )

    def check_pairs(self, names: Iterable[str]) -> None:
        """Raise HoldfastError if a pair was not measured, or not completely."""
        names = set(names)
        if missing := sorted(names - set(self.names)):
            raise HoldfastError(
                f"The calibration lacks {', '.join(missing)}. It contains {', '.join(self.names)}."
            )
        for first, second in self.unfinished():
            if {first, second} <= names:
                raise HoldfastError(
                    f"The calibration of {first} and {second} is not finished. Run `holdfast "
                    "calibrate` again, or merge all its shards."
                )

    def check_table(self, table: str) -> None:
        """Raise HoldfastError if the accuracies were measured with another severity table."""
        if (measured := self.provenance.get("table", table)) != table:
            raise HoldfastError(
                f"The calibration was measured with table={measured!r} and does not apply to "
                f"table={table}. Pass table={measured!r}, or measure this table: holdfast "
                f"calibrate --table {table}."
            )

    def differences(self, size: int, weights: str | None) -> list[str]:
        """How the image size and the source model's weights differ from those of the calibration."""
        known = self.provenance
        stated = re.search(r"size (\d+)", str(known.get("content")))
        measured = known.get("size") or (int(stated[1]) if stated else size)
        other = weights is not None and known.get("weights", weights) != weights
        backbone = f"backbone {known.get('backbone')} ({known.get('weights')}, not {weights})"
        return [backbone] * other + [f"size {measured}, not {size}"] * (measured != size)

    @property
    def difficulty(self) -> float | None:
        """The accuracy in percent along whose walks the accuracies were corrected; None: they were not."""
        return self.provenance.get("walks", {}).get("target")

    @property
    def official(self) -> bool:
        """Whether this is CCC's published file."""
        return "origin" in self.provenance

    @property
    def whole(self) -> bool:
        """Whether only whole severities were measured."""
        return bool(self.provenance.get("whole"))

    def unfinished(self) -> list[tuple[str, str]]:
        """The ordered pairs of which a severity is not measured that has to be."""
        step = WHOLE if self.whole else 1
        accuracy = self.accuracy[:, :, ::step, ::step]
        pairs = np.argwhere(np.isnan(accuracy).any((2, 3)))
        return [(self.names[a], self.names[b]) for a, b in pairs if a != b]

    def matrix(self, first: str, second: str) -> np.ndarray:
        """Accuracies [21,21] of one ordered pair; those not measured are interpolated.

        Raises HoldfastError if the pair was not measured.
        """
        self.check_pairs((first, second))
        pair = self.accuracy[self.names.index(first), self.names.index(second)].astype(np.float64)
        return _between(pair[::WHOLE, ::WHOLE]) if self.whole else pair


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays of numbers; a file from the internet may call nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        numpy = ("_reconstruct", "_frombuffer", "ndarray", "dtype")
        known = module.partition(".")[0] == "numpy" and name in numpy
        if known or (module, name) == ("_codecs", "encode"):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise ValueError(f"it asks for {module}.{name}")


def _in_percent(accuracy: np.ndarray) -> bool:
    """Whether all numbers lie in [0,100]; NaN, not measured, counts as such."""
    return not ((accuracy < 0) | (accuracy > 100)).any()


def _between(matrix: np.ndarray) -> np.ndarray:
    """Accuracies [21,21] from those of whole severities [6,6], monotone between neighbours (PCHIP)."""
    from scipy.interpolate import PchipInterpolator

    measured, all_levels = np.arange(0, LEVELS, WHOLE), np.arange(LEVELS)
    rows = PchipInterpolator(measured, matrix, axis=1)(all_levels)
    return PchipInterpolator(measured, rows, axis=0)(all_levels)
