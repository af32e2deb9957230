"""Layers around a network: the normalisation of images before it, a choice of its classes after it."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ... import HoldfastError
from ...imagenet import synsets


class Normalise(nn.Module):
    """(images - mean) / std per channel; [B,3,H,W] in [0,1] in, the same shape out.

    Raises:
        HoldfastError: unless there are three means in [0,1] and three deviations in (0,1].
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
    """`net` behind its normalisation, as children `normalise` and `net`; images in [0,1] in."""
    return nn.Sequential(OrderedDict(normalise=Normalise(mean, std), net=net))


class Classes(nn.Module):
    """Logits [B,1000] -> [B,G]: the log-sum-exp of each group of ImageNet classes."""

    member: Tensor

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        super().__init__()
        rows = [torch.tensor(group) for group in groups]
        member = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
        self.register_buffer("member", member, persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        chosen = logits[:, self.member.clamp(min=0)]
        return chosen.masked_fill(self.member < 0, -torch.inf).logsumexp(2)


def class_groups(where: str) -> list[list[int]]:
    """ImageNet class numbers of "imagenet-a" or "imagenet-r", or of the sorted classes in a file or folder.

    A folder has class folders named by synsets; a .txt file one synset a line; a .json file maps each
    class to its list of synsets.

    Raises HoldfastError if it is no such name, file or folder.
    """
    numbers, path = synsets(), Path(where)
    if path.is_file() and path.suffix == ".json":
        classes = json.loads(path.read_text())
    else:
        if where in ("imagenet-a", "imagenet-r"):
            names = list(synsets(where))
        elif path.is_dir():
            names = [folder.name for folder in path.iterdir() if folder.is_dir()]
        elif path.is_file():
            names = path.read_text().split()
        else:
            raise HoldfastError(
                f"'{where}' is neither imagenet-a nor imagenet-r nor a path. Pass one of these names, "
                "a file or a folder."
            )
        classes = {name: [name] for name in names}
    unknown = {synset for group in classes.values() for synset in group} - numbers.keys()
    if unknown or not all(classes.values()):
        raise HoldfastError(
            f"{where} has classes that are not ImageNet synsets: {sorted(unknown)[:3]}. Remove "
            "them."
        )
    return [[numbers[synset] for synset in classes[name]] for name in sorted(classes)]
