"""Batches of streams and of any other DataLoader, and the interface of labelled images."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import HoldfastError


class Batch(NamedTuple):
    """Images of a stream, with their positions."""

    images: Tensor  # [B,3,H,W] float32 in [0,1]
    # [B] int64, -1 if unknown; or [B,K]: several correct labels, padded with -1
    labels: Tensor
    index: Tensor  # type: ignore[assignment]  # [B] int64, position in the stream
    segment: Tensor  # [B] int64, number of the segment of constant corruption


IMAGES, LABELS = ("image", "images", "pixel_values"), ("label", "labels", "target", "targets")
WANTED = "let the DataLoader give (images, labels), or a mapping with 'image' and 'label'"


def as_batch(found: Any, first: int, segment: int) -> Batch:
    """Convert a DataLoader's (images, labels, ...) or mapping to a `Batch`; a `Batch` stays unchanged.

    uint8 images are scaled to [0,1]. Missing labels become -1 (unknown).

    Args:
        found: what the DataLoader gave.
        first: the position of its first image.
        segment: the number of the DataLoader.

    Raises HoldfastError if it contains no images, or the labels are not class numbers.
    """
    if isinstance(found, Batch):
        return found
    if isinstance(found, Mapping):
        images = next((found[key] for key in IMAGES if key in found), None)
        labels = next((found[key] for key in LABELS if key in found), None)
        content = f"a mapping with the keys {', '.join(map(repr, found))}"
    else:
        parts = list(found) if isinstance(found, Sequence) else [found]
        images, labels = [*parts, None, None][:2]
        content = f"a {type(found).__name__} of {', '.join(map(described, parts)) or 'nothing'}"
        content = content if isinstance(found, Sequence) else described(found)
    if not isinstance(images, Tensor) or images.ndim != 4:
        raise HoldfastError(f"a batch is {content}, not images [B,3,H,W] and labels: {WANTED}.")
    count = len(images)
    labels = torch.full((count,), -1) if labels is None else class_numbers(labels, count, content)
    index = torch.arange(first, first + count)
    if images.dtype == torch.uint8:
        images = images.float() / 255
    return Batch(images, labels, index, torch.full_like(index, segment))


def class_numbers(labels: Any, count: int, content: str) -> Tensor:
    """Labels as int64 [B]; raises HoldfastError unless they are class numbers, one for each image."""
    try:
        labels = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):  # e.g. words
        labels = torch.empty(0)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and len(labels) == count:
        raise HoldfastError(
            f"a batch is {content}: pass class numbers int64 [B] as labels. Of one-hot labels, they are "
            "labels.argmax(1); images with several correct classes need a source that says so "
            "(holdfast.datamodules.ImageSet)."
        )
    if labels.is_floating_point() or labels.ndim != 1 or len(labels) != count:
        raise HoldfastError(
            f"a batch is {content}, whose labels are not class numbers (int64 [B], one for each image): "
            f"{WANTED}."
        )
    return labels.long()


def described(thing: Any) -> str:
    """A tensor's type and shape, as in float32 [64, 3, 224, 224]; the class of anything else."""
    if isinstance(thing, Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} {list(thing.shape)}"
    return type(thing).__name__


class LabelledImages(ABC):
    """Labelled images; a pure function of (index, seed), whatever the batch."""

    # No Protocol: jsonargparse would then want the very same annotations of every class by its name.

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K] (see Batch).

        A label of -1 means unknown.
        """
