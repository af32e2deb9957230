"""Where clean images come from: the contract of a source."""

import torch
from torch import Tensor

from ... import one_of
from ...batch import LabelledImages

_SPLITS = ("train", "calibration", "stream")


class ImageSource(LabelledImages):
    """Clean, labelled images by position; a pure function of (index, seed), whatever the batch."""

    classes: int
    size: int
    content = ""  # what tells apart other images of the same number, in a run's provenance

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} images, {self.classes} classes, size {self.size})"
        )

    def labels_of(self, index: Tensor) -> Tensor:
        """Labels int64 [B] or [B,K] of the images at `index` [B], as `load` gives them.

        Sources that know them without decoding pixels override this.
        """
        return self.load(index, torch.zeros_like(index))[1]

    def name(self, index: int) -> tuple[str, str]:
        """Folder and file name of an image, for the description in a shard."""
        return "", str(index)


def check_split(split: str) -> int:
    """The split's number; raises HoldfastError if the name is unknown."""
    one_of(*_SPLITS, split=split)
    return _SPLITS.index(split)
