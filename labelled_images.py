"""Labelled images by position: what callbacks measure on, and what every source of images gives."""

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class LabelledImages(Protocol):
    """Labelled images; a pure function of (index, seed), whatever the batch."""

    def __len__(self) -> int: ...

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K] (see Batch).

        A label of -1 is not known; one below marks an image that could not be read and is to be left out.
        """
        ...
