"""CCC's published accuracy matrices: a pickle from the internet, read without executing it."""

from pathlib import Path

import numpy as np

from .. import HoldfastError
from ..files import reason
from .calibration import LEVELS, Calibration
from .corruptions import CORRUPTIONS
from .pickled import unpickled
from .sources.tar import THEIRS

ORIGIN = (
    "https://nc.mlcloud.uni-tuebingen.de/index.php/s/izTMnXkaHoNBZT4/download/"
    "ccc_accuracy_matrix.pickle"
)
MOST = 2**23  # bytes; the published file has less than one million


def load_official(path: Path) -> Calibration:
    """{"n1_<a>_n2_<b>": [21,21] percent} of all ordered pairs of the 15 corruptions, as a Calibration.

    Raises HoldfastError if the file asks for anything but arrays, or is not of this form.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"it has more than {MOST:,} bytes")
        matrices = unpickled(data)
    except FileNotFoundError:
        raise HoldfastError(f"there is no file {path}: download it from {ORIGIN}.") from None
    except (OSError, ValueError) as error:
        raise HoldfastError(
            f"{path} is not a pickle of arrays ({reason(error)}): download it from {ORIGIN}."
        ) from None
    names = CORRUPTIONS
    accuracy = np.full((len(names), len(names), LEVELS, LEVELS), np.nan, dtype=np.float32)
    for a, first in enumerate(names):
        for b, second in enumerate(names):
            key = f"n1_{THEIRS.get(first, first)}_n2_{THEIRS.get(second, second)}"
            if key not in matrices:
                continue
            matrix = matrices[key]
            if matrix is None:
                raise HoldfastError(f"{path}: {key} is not an array of numbers.")
            if matrix.shape != (LEVELS, LEVELS) or not 0 <= matrix.min() <= matrix.max() <= 100:
                raise HoldfastError(f"{path}: {key} is not 21 x 21 percentages.")
            accuracy[a, b] = matrix
    if np.isnan(accuracy).all():
        raise HoldfastError(f"{path} has no key like n1_gaussian_noise_n2_fog.")
    provenance = {
        "backbone": "torchvision/resnet50.IMAGENET1K_V1",
        "source": "5,000 images of ImageNet's validation set",
        "origin": ORIGIN,
        "table": "imagenet",
        "size": 224,
    }
    return Calibration(names, accuracy, provenance)
