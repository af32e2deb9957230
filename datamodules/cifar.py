"""CIFAR-10-C and CIFAR-100-C: the published corrupted test sets, corruption after corruption."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from .. import HoldfastError
from .concatenation import Concatenation, Part
from .corruptions import CORRUPTIONS
from .sources.arrays import ORIGIN, CorruptedArray


class CIFARC(Concatenation):
    """CIFAR-10-C or CIFAR-100-C (Hendrycks & Dietterich 2019), corruption after corruption.

    A single corruption is the fully test-time setting, all of them are the continual one,
    severities=[1,2,3,4,5,4,3,2,1] is the gradual one (Wang et al. 2022), and epochs=None the endless one.

    Args:
        folder: with CORRUPTION.npy and labels.npy.
        classes: 10 or 100.
        corruptions: in this order.
        severities: severities of each corruption, in this order.
        **kwargs: see `Concatenation`; AETTA drops incomplete batches (drop_last).
    """

    def __init__(
        self,
        folder: str,
        classes: Literal[10, 100] = 10,
        corruptions: Sequence[str] = CORRUPTIONS,
        severities: Sequence[int] = (5,),
        **kwargs: Any,
    ) -> None:
        if classes not in ORIGIN:
            raise HoldfastError(f"classes={classes}: choose 10 for CIFAR-10 or 100 for CIFAR-100.")
        if not corruptions or not severities or not set(severities) <= {1, 2, 3, 4, 5}:
            raise HoldfastError(
                f"corruptions={list(corruptions)}, severities={list(severities)}: pass at least "
                "one of each, with severities from 1 to 5."
            )
        pairs = [(name, severity) for name in corruptions for severity in severities]
        sources = {
            (name, level): CorruptedArray(Path(folder), name, level, classes)
            for name, level in sorted(set(pairs))
        }
        parts = [Part((pair,), sources[pair], len(sources[pair])) for pair in pairs]
        super().__init__(parts, precorrupted=True, table="cifar", quality=None, **kwargs)
