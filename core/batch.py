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


# Keys of mappings; "img" and "fine_label" are those of CIFAR on the Hugging Face hub.
IMAGE_KEYS = ("image", "images", "pixel_values", "img")
LABEL_KEYS = ("label", "labels", "target", "targets", "fine_label")
_WANTED = "Let the DataLoader give (images, labels), or a mapping with 'image' and 'label'."


def as_batch(content: Any, first: int, segment: int) -> Batch:
    """Convert a DataLoader's (images, labels, ...) or mapping to a `Batch`; a `Batch` stays unchanged.

    uint8 images are scaled to [0,1]. Missing labels become -1 (unknown).

    Args:
        content: what the DataLoader gave.
        first: the position of its first image.
        segment: the number of the DataLoader.

    Raises HoldfastError if it contains no images, or the labels are not class numbers.
    """
    if isinstance(content, Batch):
        return content
    if isinstance(content, Mapping):
        images, labels = image_and_label(content)
        description = f"a mapping with the keys {', '.join(map(repr, content))}"
    else:
        parts = list(content) if isinstance(content, Sequence) else [content]
        images, labels = image_and_label(parts)
        description = (
            f"a {type(content).__name__} of {', '.join(map(_described, parts)) or 'nothing'}"
        )
        description = description if isinstance(content, Sequence) else _described(content)
    if not isinstance(images, Tensor) or images.ndim != 4:
        raise HoldfastError(f"A batch is {description}, not images [B,3,H,W] and labels. {_WANTED}")
    count = len(images)
    labels = (
        torch.full((count,), -1) if labels is None else _class_numbers(labels, count, description)
    )
    index = torch.arange(first, first + count)
    if images.dtype == torch.uint8:
        images = images.float() / 255
    return Batch(images, labels, index, torch.full_like(index, segment))


def image_and_label(content: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, Any]:
    """The image and the label, None if missing, in a mapping or in (image, label, ...); of batches, too."""
    if isinstance(content, Mapping):
        image, label = (
            next((content[key] for key in keys if key in content), None)
            for keys in (IMAGE_KEYS, LABEL_KEYS)
        )
        return image, label
    return (*content, None, None)[:2]  # type: ignore[return-value]


def _class_numbers(labels: Any, count: int, description: str) -> Tensor:
    """Labels as int64 [B]; raises HoldfastError unless they are class numbers, one for each image."""
    try:
        labels = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):  # e.g. words
        labels = torch.empty(0)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and len(labels) == count:
        raise HoldfastError(
            f"A batch is {description}. Pass class numbers int64 [B] as labels: labels.argmax(1) of "
            "one-hot labels. For images with several correct classes, use holdfast.datamodules.ImageSet."
        )
    if labels.is_floating_point() or labels.ndim != 1 or len(labels) != count:
        raise HoldfastError(
            f"A batch is {description}, and its labels are not class numbers (int64 [B]). {_WANTED}"
        )
    return labels.long()


def _described(thing: Any) -> str:
    """A tensor's type and shape, as in float32 [64, 3, 224, 224]; the class of anything else."""
    if isinstance(thing, Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} {list(thing.shape)}"
    return type(thing).__name__


class LabelledImages(ABC):
    """Labelled images; a pure function of (index, seed), independent of the batch."""

    # No Protocol: jsonargparse would then want the very same annotations of every class by its name.

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K] (see Batch).

        A label of -1 means unknown.
        """

    def adopt(self, network: Any) -> None:  # noqa: B027
        """Resize and crop images as a network's weights need it, if that is not chosen; else do nothing."""
