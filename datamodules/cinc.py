"""CIN-C, its holdout and CIN-3DCC: corruption after corruption, without a reset in between."""

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from .. import HoldfastError, in_range
from ..imagenet import CORRUPTIONS, EXTRA, FAMILIES
from .concatenation import Concatenation, Part
from .sources import ImageSource
from .sources.folder import ImageNet

# CoTTA's ten orders (Wang et al. 2022), positions in CORRUPTIONS
_COTTA = (
    (10, 13, 0, 5, 6, 4, 2, 14, 3, 12, 1, 8, 7, 9, 11),
    (14, 1, 6, 8, 11, 9, 3, 12, 0, 10, 4, 2, 13, 7, 5),
    (11, 3, 0, 1, 7, 8, 4, 6, 12, 14, 13, 10, 2, 5, 9),
    (1, 9, 4, 13, 7, 12, 10, 2, 3, 8, 11, 0, 5, 14, 6),
    (13, 4, 6, 7, 9, 2, 10, 5, 8, 14, 0, 1, 11, 3, 12),
    (5, 7, 9, 1, 3, 11, 6, 10, 8, 12, 4, 0, 13, 14, 2),
    (8, 2, 14, 11, 6, 4, 13, 7, 3, 5, 10, 12, 1, 9, 0),
    (4, 6, 2, 9, 7, 14, 0, 8, 1, 10, 11, 5, 13, 3, 12),
    (3, 5, 6, 1, 0, 4, 14, 9, 11, 13, 8, 7, 10, 12, 2),
    (11, 0, 3, 6, 8, 4, 14, 9, 13, 12, 1, 2, 7, 5, 10),
)


THREE_D = FAMILIES["imagenet-3dcc"]


class CINC(Concatenation):
    """CIN-C: the 15 corruptions of ImageNet-C one after another, without a reset in between.

    Pass either `source`, clean images that are corrupted on the fly, or `folder`, the published
    FOLDER/CORRUPTION/SEVERITY/SYNSET/NAME.JPEG (https://zenodo.org/records/2235448).

    Args:
        order: number of the order of the corruptions; default: from the seed, so that the seeds 0 to 9
            are the ten published orders.
        severity: 1 to 5.
        each: images of every corruption; default: all.
        **kwargs: see `Concatenation`.
    """

    orders = tuple(tuple(CORRUPTIONS[i] for i in order) for order in _COTTA)
    origin = "https://zenodo.org/records/2235448"

    def __init__(
        self,
        source: ImageSource | None = None,
        folder: str | None = None,
        order: int | None = None,
        severity: int = 5,
        each: int | None = None,
        seed: int = 43,
        quality: int | None = 85,
        **kwargs: Any,
    ) -> None:
        if (source is None) == (folder is None):
            name = type(self).__name__
            raise HoldfastError(
                f"{name} takes either `source` (clean images) or `folder`. Pass exactly one."
            )
        in_range(0, len(self.orders) - 1, order=order)
        self.seeded = order is None
        number = seed % len(self.orders) if order is None else order
        parts = []
        for corruption in self.orders[number]:
            images = source or ImageNet(self.find_folder(str(folder), corruption, severity))
            parts.append(Part(((corruption, severity),), images, each or len(images)))
        super().__init__(parts, precorrupted=source is None, seed=seed, quality=quality, **kwargs)

    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]:
        if not self.seeded:
            return facts
        facts = facts | {"parts": sorted(facts["parts"])}
        return facts | ({"source": "", "content": ""} if self.precorrupted else {})  # of the first

    def find_folder(self, folder: str, corruption: str, severity: int) -> Path:
        """The folder of a corruption; in the unpacked archives it may be inside a folder of its kind.

        Raises HoldfastError if there is none.
        """
        end = f"{corruption}/{severity}"
        paths = [p for p in (Path(folder, end), *Path(folder).glob(f"*/{end}")) if p.is_dir()]
        if not paths:
            raise HoldfastError(
                f"{folder} lacks {end}. Expected files like {folder}/{end}/n01440764/NAME.JPEG "
                f"(from {self.origin})."
            )
        return paths[0]


class CINCHoldout(CINC):
    """CIN-C's four extra corruptions, in one of 24 orders, repeated to the length of CIN-C.

    Args:
        epochs: 3.75 by default, which makes 750,000 of 200,000 images.
        **kwargs: see `CINC`.
    """

    orders = tuple(permutations(EXTRA))

    def __init__(
        self,
        source: ImageSource | None = None,
        folder: str | None = None,
        epochs: float | None = 3.75,
        **kwargs: Any,
    ) -> None:
        super().__init__(source, folder, epochs=epochs, **kwargs)


class CIN3DCC(CINC):
    """CIN-3DCC: the 12 common corruptions in three dimensions (Kar et al. 2022), from their folders.

    The papers give neither their ten orders nor the severity: these orders are ours.
    """

    orders = tuple(tuple(Random(k).sample(THREE_D, len(THREE_D))) for k in range(10))
    origin = "https://github.com/EPFL-VILAB/3DCommonCorruptions"

    def __init__(self, folder: str, **kwargs: Any) -> None:
        super().__init__(
            source=None, folder=folder, table="imagenet", quality=None, on_device=False, **kwargs
        )
