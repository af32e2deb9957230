"""imagecorruptions' functions (https://github.com/bethgelab/imagecorruptions) for NumPy images of any size.

Names, numbers and severities are those of imagecorruptions 1.1.2. Pixels equal its pixels, or, for
random corruptions, their distribution. Without a `seed`, each call draws one from NumPy's global
generator, so `np.random.seed` makes a sequence of calls repeatable.

>>> corrupt(np.zeros((240, 320), np.uint8), corruption_name="fog", severity=3).shape
(240, 320, 3)
"""

import numpy as np
import torch

from ... import HoldfastError
from ...imagenet import CORRUPTIONS, EXTRA
from . import corrupt as _corrupt

_NAMES = CORRUPTIONS + EXTRA
_SUBSETS = {
    "common": CORRUPTIONS,
    "validation": EXTRA,
    "all": _NAMES,
    "noise": CORRUPTIONS[:3],
    "blur": CORRUPTIONS[3:7],
    "weather": CORRUPTIONS[7:11],
    "digital": CORRUPTIONS[11:],
}


def corrupt(
    image: np.ndarray,
    severity: float = 1,
    corruption_name: str | None = None,
    corruption_number: int = -1,
    *,
    seed: int | None = None,
) -> np.ndarray:
    """The corrupted image, uint8 [H,W,3]; grey images [H,W] or [H,W,1] become RGB.

    Args:
        image: uint8, RGB or grey, of at least 1 x 1 pixel.
        severity: from 0 to 5; fractions interpolate.
        corruption_name: a name of `get_corruption_names("all")`, or the short form of CCC.
        corruption_number: from 0 to 18, the position in that list, if there is no name.
        seed: the only source of randomness (default: drawn from NumPy's global generator).

    Raises:
        HoldfastError: if an argument has another form.
    """
    if corruption_name is None:
        if corruption_number not in range(len(_NAMES)):
            raise HoldfastError(
                f"corruption_number={corruption_number}: pass a corruption_name, or 0 to 18."
            )
        corruption_name = _NAMES[corruption_number]
    if seed is None:
        # As the users of imagecorruptions seed it.
        seed = int(np.random.randint(2**62, dtype=np.int64))  # noqa: NPY002
    batch = as_batch(image)
    return as_array(_corrupt(batch, corruption_name, severity, seed))


def get_corruption_names(subset: str = "common") -> list[str]:
    """The names of common, validation, all, noise, blur, weather or digital corruptions.

    Raises:
        HoldfastError: if there is no such subset.
    """
    if subset not in _SUBSETS:
        raise HoldfastError(f"subset={subset!r}: choose from {', '.join(_SUBSETS)}.")
    return list(_SUBSETS[subset])


def as_batch(image: np.ndarray) -> torch.Tensor:
    """The image [H,W,3], [H,W,1] or [H,W] as uint8 [1,3,H,W]; its memory is not shared.

    Raises:
        HoldfastError: if the image has another form.
    """
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        form = image.dtype if isinstance(image, np.ndarray) else type(image).__name__
        raise HoldfastError(f"Pass a NumPy array of uint8 as image, not {form}.")
    planes = image[..., None] if image.ndim == 2 else image
    if planes.ndim != 3 or planes.shape[2] not in (1, 3) or planes.size == 0:
        raise HoldfastError(
            f"Pass an image of shape [H,W,3], [H,W,1] or [H,W], not {list(image.shape)}."
        )
    planes = np.broadcast_to(planes, (*planes.shape[:2], 3)).transpose(2, 0, 1)
    return torch.from_numpy(np.array(planes, order="C"))[None]


def as_array(batch: torch.Tensor) -> np.ndarray:
    """The first image of a batch [B,3,H,W] as [H,W,3]."""
    return np.ascontiguousarray(batch[0].permute(1, 2, 0).numpy())
