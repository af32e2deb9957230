"""Labelled images by position: the interface of image sources, also used by callbacks."""

from abc import ABC, abstractmethod

from torch import Tensor


class LabelledImages(ABC):
    """Labelled images; a pure function of (index, seed), whatever the batch."""

    # No Protocol: jsonargparse would then want the very same annotations of every class by its name.

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K] (see Batch).

        A label of -1 means unknown. `UNREAD` of datamodules/sources/image_source.py marks an image that
        could not be read and is left out.
        """
