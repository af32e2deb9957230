"""CCC's published accuracy matrices: a pickle from the internet, read without executing it."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from .. import HoldfastError
from .calibration import LEVELS, Calibration
from .corruptions import CORRUPTIONS
from .sources.tar import THEIRS

ORIGIN = (
    "https://nc.mlcloud.uni-tuebingen.de/index.php/s/izTMnXkaHoNBZT4/download/"
    "ccc_accuracy_matrix.pickle"
)


def _latin1(text: str, encoding: str) -> bytes:
    """In place of codecs.encode, with which old pickles spell bytes."""
    return text.encode("latin1")


class ArrayUnpickler(pickle.Unpickler):
    """Admits numpy arrays of numbers and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        core = module.replace("numpy._core", "numpy.core")
        if (core, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if (core, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np.ndarray.__reduce__(np.zeros(0))[0]
        if (core, name) == ("numpy.core.numeric", "_frombuffer"):
            return np.zeros(0).__reduce_ex__(5)[0]
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def load_official(path: Path) -> Calibration:
    """{"n1_<a>_n2_<b>": [21,21] percent} of all ordered pairs of the 15 corruptions, as a Calibration.

    Raises HoldfastError if the file asks for anything but arrays, or is not of this form.
    """
    try:
        with path.open("rb") as file:
            matrices = ArrayUnpickler(file).load()
    except FileNotFoundError:
        raise HoldfastError(f"there is no file {path}: download it from {ORIGIN}.") from None
    except Exception as error:  # a pickle can be damaged in any way
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise HoldfastError(f"{path} is not read, it is no pickle of arrays ({reason}).") from None
    names = CORRUPTIONS
    accuracy = np.full((len(names), len(names), LEVELS, LEVELS), np.nan, dtype=np.float32)
    for a, first in enumerate(names):
        for b, second in enumerate(names):
            key = f"n1_{THEIRS.get(first, first)}_n2_{THEIRS.get(second, second)}"
            matrix = matrices.get(key) if isinstance(matrices, dict) else None
            if matrix is None:
                continue
            if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "fiu":
                raise HoldfastError(f"{path}: {key} is no array of numbers.")
            if matrix.shape != (LEVELS, LEVELS) or not 0 <= matrix.min() <= matrix.max() <= 100:
                raise HoldfastError(f"{path}: {key} is not 21 x 21 percentages.")
            accuracy[a, b] = matrix
    if np.isnan(accuracy).all():
        raise HoldfastError(f"{path} has no key like n1_gaussian_noise_n2_fog.")
    provenance = {
        "backbone": "torchvision/resnet50.IMAGENET1K_V1",
        "source": "5,000 images of ImageNet's validation set",
        "origin": ORIGIN,
    }
    return Calibration(names, accuracy, provenance)
