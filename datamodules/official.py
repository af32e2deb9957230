"""CCC's published accuracy matrices: a pickle from the internet, read without executing it."""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from .. import HoldfastError
from ..files import reason
from .calibration import LEVELS, Calibration
from .corruptions import CORRUPTIONS
from .sources.tar import THEIRS

ORIGIN = (
    "https://nc.mlcloud.uni-tuebingen.de/index.php/s/izTMnXkaHoNBZT4/download/"
    "ccc_accuracy_matrix.pickle"
)
MOST = 2**23  # bytes; the published file has less than one million
NUMPY = ("dtype", "ndarray", "_reconstruct", "_frombuffer")


class Call:
    """Stands for what NumPy would return: the arguments of the call, and the state set afterwards."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.state = arguments, ()

    def __setstate__(self, state: tuple) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        """The array that is described, which must be of plain numbers."""
        if self.state:
            _, shape, kind, by_columns, content = self.state
        else:  # since protocol 5
            content, kind, shape, order = self.arguments
            by_columns = order == "F"
        code = kind.state[1] + kind.arguments[0]
        if not re.fullmatch(r"[<>=|](f[248]|[iu][1248])", code):
            raise ValueError("it contains something other than numbers")
        return np.frombuffer(content, code).reshape(shape, order="F" if by_columns else "C")


class MatrixUnpickler(pickle.Unpickler):
    """Reads arrays of numbers and calls nothing that the file names."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in NUMPY:
            return Call
        if (module, name) == ("_codecs", "encode"):  # bytes, in protocols below 3
            return lambda text, encoding: text.encode("latin1")
        raise ValueError(f"it asks for {module}.{name}")


def load_official(path: Path) -> Calibration:
    """{"n1_<a>_n2_<b>": [21,21] percent} of all ordered pairs of the 15 corruptions, as a Calibration.

    Raises HoldfastError if the file asks for anything but arrays, or is not of this form.
    """
    names = CORRUPTIONS
    accuracy = np.full((len(names), len(names), LEVELS, LEVELS), np.nan, dtype=np.float32)
    try:
        if path.stat().st_size > MOST:
            raise ValueError(f"it has more than {MOST:,} bytes")
        with path.open("rb") as file:
            matrices = MatrixUnpickler(file).load()
        for a, first in enumerate(names):
            for b, second in enumerate(names):
                key = f"n1_{THEIRS.get(first, first)}_n2_{THEIRS.get(second, second)}"
                if key in matrices:
                    accuracy[a, b] = percentages(matrices[key], key)
        if np.isnan(accuracy).all():
            raise ValueError("it has no key like n1_gaussian_noise_n2_fog")
    except Exception as error:  # a damaged pickle makes the reader raise many kinds
        raise HoldfastError(
            f"{path} is not a pickle of arrays ({reason(error)}). Download it from {ORIGIN}."
        ) from error
    provenance = {
        "backbone": "torchvision/resnet50.IMAGENET1K_V1",
        "source": "5,000 images of ImageNet's validation set",
        "origin": ORIGIN,
        "table": "imagenet",
        "size": 224,
    }
    return Calibration(names, accuracy, provenance)


def percentages(call: Any, key: str) -> np.ndarray:
    """The matrix [21,21] that a call describes; raises ValueError if it is none of percentages."""
    if not isinstance(call, Call):
        raise ValueError(f"{key} is not an array of numbers")
    matrix = call.array()
    if matrix.shape != (LEVELS, LEVELS) or not 0 <= matrix.min() <= matrix.max() <= 100:
        raise ValueError(f"{key} is not 21 x 21 percentages")
    return matrix
