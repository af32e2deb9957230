"""Images of any data set with rows: torchvision's, Hugging Face's, lists of pairs, and arrays."""

import math
from collections.abc import Mapping
from functools import cached_property
from operator import index as as_index
from typing import Any, Literal

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_warn
from PIL import Image
from torch import Tensor
from torchvision.transforms import functional as TF

from ... import HoldfastError, in_range, one_of
from ...batch import LABEL_KEYS, image_and_label
from ...preprocessing import Preprocessing, central, preprocessing_of
from ..counter import uniforms
from . import ImageSource
from .pixels import as_pil, centred, random_box

Crop = Literal["random", "center"] | None

_ATTEMPTS = 10  # to find a random crop that fits, as in torchvision
_SIZE = 224  # pixels per side if neither the user nor the network says it


class DatasetSource(ImageSource):
    """Any data set in which `dataset[i]` is (image, label, ...) or a mapping such as {"image", "label"}.

    Images are of PIL, or tensors or arrays [C,H,W] or [H,W,C], uint8 or floats in [0,1] that are rounded
    to 8 bits, not normalised. Labels are class numbers, -1 or None if unknown, or lists of several
    correct ones. A mapping of arrays, {"image": [N,...], "label": [N]}, is a data set too.

    Labels are known without decoding images from the data set's `targets`, through its
    `target_transform`, or from its column "label"; `load` refuses an item whose label is another.

    Args:
        dataset: the data set.
        size: pixels per side. None, or the size of the network's weights: a run, or `like`, resizes and
            crops images as these were evaluated; else Resize(size * 256 / 224), CenterCrop(size), bilinear,
            with 224 by default.
        crop: "center" as `size` says, of images that do not have the right size already (those of
            ImageNet-C do); "random": flip with probability 1/2, then torchvision's RandomResizedCrop of
            the full image, bilinear, both drawn from the seed alone; None: all images have the size.
        classes: their number; default: what the data set says.
    """

    def __init__(
        self,
        dataset: Any,
        size: int | None = None,
        crop: Crop = "center",
        classes: int | None = None,
    ) -> None:
        if crop is not None:
            one_of("random", "center", crop=crop)
        if isinstance(dataset, Mapping):
            dataset = _Columns(dataset)
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise HoldfastError(
                f"A {type(dataset).__name__} has no rows by number. Pass a data set with a length and "
                "dataset[i]; of Hugging Face's, one that is not streamed."
            )
        if classes is None and (classes := _class_count(dataset)) is None:
            raise HoldfastError("The data set has no attribute `classes`. Pass classes=COUNT.")
        in_range(1, size=size)
        self.dataset, self.crop, self.classes = dataset, crop, classes
        self._chosen_size, self._chosen = size, False
        self._set(central(size or _SIZE))

    def _set(self, preprocessing: Preprocessing) -> None:
        self.preprocessing, self.size = preprocessing, preprocessing.size

    def like(self, network: Any) -> "DatasetSource":
        """Resize and crop as the weights of a network, or a `Preprocessing`, need it; returns the source.

        Raises HoldfastError if the network does not say it.
        """
        preprocessing = network if isinstance(network, Preprocessing) else preprocessing_of(network)
        if preprocessing is None:
            raise HoldfastError(
                f"A {type(network).__name__} does not say how its images are resized. Set "
                "network.preprocessing = holdfast.datamodules.Preprocessing(size=..., resize=...)."
            )
        self._chosen = True
        self._set(preprocessing)
        return self

    def adopt(self, network: Any) -> None:
        """As `like`, unless size or preprocessing are chosen; warns if they are not the weights'."""
        weights = preprocessing_of(network)
        if not self._chosen and (
            self._chosen_size is None or (weights and weights.size == self._chosen_size)
        ):
            self._set(weights or central(_SIZE))
        elif weights and self.crop != "random" and str(weights) != str(self.preprocessing):
            rank_zero_warn(
                f"{self!r}: {self.preprocessing}, but the network's weights were evaluated with "
                f"{weights}. Omit size to use these, unless you intend another size."
            )

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def content(self) -> str:  # type: ignore[override]
        """How images are cropped, and resized if not as by default."""
        if self.crop == "center" and str(self.preprocessing) != str(central(self.size)):
            return f"center crops ({self.preprocessing})"
        return f"{self.crop or 'no'} crops"

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K].

        Raises HoldfastError if an image or a label cannot be understood.
        """
        images, labels = [], []
        for i, numbers in zip(index.tolist(), self.draws(seed), strict=True):
            image, label = self.item(i)
            image = self.cropped(as_pil(image), numbers)
            images.append(torch.from_numpy(np.array(image)).permute(2, 0, 1))
            labels.append(label)
        return torch.stack(images), _label_rows(labels)

    def draws(self, seed: Tensor) -> list[list[float]]:
        """The numbers by which `cropped` chooses, from seeds int64 [B]."""
        return uniforms(seed, 1 + 4 * _ATTEMPTS).tolist()

    def labels_of(self, index: Tensor) -> Tensor:
        if self._targets is None:
            return super().labels_of(index)
        return _label_rows([self._target(i) for i in index.tolist()])

    def item(self, index: int) -> tuple[Any, int | list[int]]:
        """An image and its label. Raises HoldfastError if the image cannot be read."""
        try:
            row = self.dataset[index]
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise unreadable(f"image {index} of the data set", error) from error
        image, label = image_and_label(row if isinstance(row, (Mapping, tuple, list)) else [row])
        label = class_number(label, f"Image {index} of the data set")
        if self._targets is not None and label != (known := self._target(index)):
            raise HoldfastError(
                f"Image {index} of the data set has the label {label}, but {known} in its `targets` or "
                "label column, by which some streams order the images. Make the two agree, with a "
                "target_transform or by changing `targets`."
            )
        return image, label

    @cached_property
    def _targets(self) -> Any:
        """The labels of all images before `target_transform`; None if only the items have them."""
        if (targets := getattr(self.dataset, "targets", None)) is not None:
            return targets
        columns = getattr(self.dataset, "column_names", None)  # of Hugging Face's data sets
        if not isinstance(columns, list):
            return None
        return next((self.dataset[key] for key in LABEL_KEYS if key in columns), None)

    def _target(self, index: int) -> int | list[int]:
        target = self._targets[index]
        if change := getattr(self.dataset, "target_transform", None):
            target = change(target)
        return class_number(target, f"Image {index} of the data set")

    def cropped(self, image: Any, numbers: list[float]) -> Any:
        """The part of an image (PIL, or [3,H,W]) that is shown; `numbers` in [0,1) choose a random one.

        Raises HoldfastError if the image has another size and nothing says how to crop it.
        """
        size = TF.get_image_size(image)
        if self.crop == "random":
            image = TF.hflip(image) if numbers[0] < 0.5 else image
            left, top, width, height = random_box(size[0], size[1], numbers[1:])
            return TF.resized_crop(image, top, left, height, width, [self.size, self.size])
        if size == [self.size, self.size]:
            return image
        if self.crop == "center":
            return centred(image, self.preprocessing)
        raise HoldfastError(
            f"An image of {size[0]}x{size[1]} does not fit size={self.size}. Choose "
            "crop='random' or crop='center', or the right size."
        )


class _Columns:
    """The rows of a mapping of arrays; raises HoldfastError unless it has images, all of one length."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.images, self.targets = image_and_label(columns)
        counts = {len(part) for part in (self.images, self.targets) if part is not None}
        if self.images is None or len(counts) > 1:
            raise HoldfastError(
                f"The data set is a mapping with the keys {', '.join(map(repr, columns))}. Pass 'image' "
                "[N,H,W,C] or [N,C,H,W] and 'label' [N]; a split of a DatasetDict, as in data['test']."
            )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.images[index], None if self.targets is None else self.targets[index]


def _class_count(dataset: Any) -> int | None:
    """The number of classes that a data set says: torchvision's `classes`, Hugging Face's ClassLabel."""
    if (names := getattr(dataset, "classes", None)) is not None:
        return len(names)
    features = getattr(dataset, "features", None)
    features = features if isinstance(features, Mapping) else {}
    counts = (getattr(features[key], "num_classes", None) for key in LABEL_KEYS if key in features)
    return next(counts, None)


def class_number(label: Any, owner: str) -> int | list[int]:
    """A label as a class number, -1 if it is None; a list as several numbers.

    Raises HoldfastError if it is a float, a word, or anything else that is no whole number.
    """
    if label is None:
        return -1
    if isinstance(label, (Tensor, np.ndarray)) and math.prod(label.shape) == 1:
        label = label.reshape(-1).tolist()[0]
    if isinstance(label, list):
        return [as_index(class_number(number, owner)) for number in label]  # type: ignore[arg-type]
    try:
        return as_index(label)
    except TypeError:
        raise HoldfastError(
            f"{owner} has the label {str(label)[:60]!r} of type {type(label).__name__}, not a class "
            "number. Let the data set give an integer from 0 on, or -1 if unknown, with a "
            "target_transform such as classes.index."
        ) from None


def _label_rows(labels: list[int | list[int]]) -> Tensor:
    """Labels int64 [B] or [B,K]; raises HoldfastError if the numbers of correct classes differ."""
    if len({len(label) if isinstance(label, list) else 0 for label in labels}) > 1:
        raise HoldfastError(
            "Some images have more labels than others. Pad the shorter lists with -1."
        )
    return torch.tensor(labels, dtype=torch.int64)


def unreadable(image: str, error: Exception) -> HoldfastError:
    return HoldfastError(f"{image} cannot be read as an image ({error}): replace or remove it.")
