"""Layers around a network: the normalisation of images before it, a choice of its classes after it."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ... import HoldfastError
from ...imagenet import class_folders, synsets


class Normalise(nn.Module):
    """(images - mean) / std per channel; [B,3,H,W] in [0,1] in, the same shape out.

    Raises HoldfastError unless there are three means in [0,1] and three deviations in (0,1].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != 3 or len(std) != 3:
            raise HoldfastError(
                f"mean={list(mean)}, std={list(std)}: pass three values for each, one per channel."
            )
        if not (all(0 <= m <= 1 for m in mean) and all(0 < s <= 1 for s in std)):
            raise HoldfastError(
                f"mean={list(mean)}, std={list(std)}: images are in [0,1], so pass means in [0,1] "
                "and standard deviations in (0,1]. Divide values for images in [0,255] by 255."
            )
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def normalised(net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> nn.Sequential:
    """`net` behind its normalisation, as children `normalise` and `net`; images in [0,1] in.

    Raises HoldfastError if it already has one.
    """
    if any(isinstance(layer, Normalise) for layer in net.modules()):
        raise HoldfastError("The network already normalises its images. Pass it as it is.")
    return nn.Sequential(OrderedDict(normalise=Normalise(mean, std), net=net))


class Classes(nn.Module):
    """Logits [B,K] -> [B,C]: those of the classes of these numbers.

    Raises HoldfastError if K is too small for them.
    """

    numbers: Tensor

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__()
        self.needed = max(numbers) + 1
        self.register_buffer("numbers", torch.tensor(numbers), persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        require_classes(logits.shape[1], self.needed)
        return logits[:, self.numbers]


def require_classes(classes: int, needed: int) -> None:
    """Raises HoldfastError if a network has fewer classes than those chosen by @ need."""
    if classes < needed:
        raise HoldfastError(
            f"The network has {classes} classes, but those chosen by @ need {needed}. "
            "Name classes that it has."
        )


def class_numbers(where: str) -> list[int]:
    """The class numbers of a count's first classes, or ImageNet's of "imagenet-a", "imagenet-r", or a
    folder's subfolders named by synsets.

    Raises HoldfastError if it is none of these.
    """
    if where.isdecimal() and int(where) > 1:
        return list(range(int(where)))
    if where in ("imagenet-a", "imagenet-r"):
        names = set(synsets(where))
    elif Path(where).is_dir():
        names = set(class_folders(Path(where)))
    else:
        raise HoldfastError(
            f"'{where}' is neither imagenet-a nor imagenet-r nor a folder nor a number above 1. Pass "
            "one of these."
        )
    numbers = synsets()
    if unknown := sorted(names - numbers.keys()):
        raise HoldfastError(
            f"{where} has classes that are not ImageNet synsets: {unknown[:3]}. Remove them."
        )
    return [numbers[name] for name in sorted(names)]
