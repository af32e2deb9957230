"""A subset or groups of the network's classes."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ... import HoldfastError
from ...imagenet import synsets


class Classes(nn.Module):
    """Logits [B,1000] -> [B,G]: the log-sum-exp of each group of ImageNet classes."""

    member: Tensor

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        super().__init__()
        width = max(len(group) for group in groups)
        member = torch.full((len(groups), width), -1)
        for row, group in zip(member, groups, strict=True):
            row[: len(group)] = torch.tensor(group)
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
    if where in ("imagenet-a", "imagenet-r"):
        classes = {synset: [synset] for synset in synsets(where)}
    elif path.is_dir():
        classes = {folder.name: [folder.name] for folder in path.iterdir() if folder.is_dir()}
    elif path.is_file() and path.suffix == ".json":
        classes = json.loads(path.read_text())
    elif path.is_file():
        classes = {synset: [synset] for synset in path.read_text().split()}
    else:
        raise HoldfastError(
            f"'{where}' is neither imagenet-a nor imagenet-r nor a path. Pass one of these names, "
            "a file or a folder."
        )
    unknown = {synset for group in classes.values() for synset in group} - numbers.keys()
    if unknown or not all(classes.values()):
        raise HoldfastError(
            f"{where} has classes that are not ImageNet synsets: {sorted(unknown)[:3]}. Remove "
            "them."
        )
    return [[numbers[synset] for synset in classes[name]] for name in sorted(classes)]
