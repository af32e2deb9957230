"""ImageNet's classes, and images of them from folders named by synset."""

from pathlib import Path

import torch
from torch import Tensor

from ... import HoldfastError
from ...imagenet import synsets
from .folder import Broken, Crop, ImageFolder, class_folders
from .image_source import UNREAD


class ImageNet(ImageFolder):
    """Images under root/SYNSET/, of some or all of the 1,000 classes, with ImageNet's labels.

    The validation set comes from https://image-net.org as one folder of 50,000 files; sort it into
    folders named by synset.
    """

    partial = True

    def __init__(
        self,
        root: str | Path,
        size: int = 224,
        crop: Crop = "center",
        broken: Broken = "refuse",
    ) -> None:
        strangers = [name for name in class_folders(Path(root)) if name not in synsets()]
        if not has_synsets(root):
            raise HoldfastError(
                f"{root} is not a folder of ImageNet classes. Expected files like "
                f"{root}/n01440764/NAME.JPEG (from https://image-net.org, sorted by synset)."
            )
        if strangers:
            raise HoldfastError(f"{Path(root, strangers[0])} is not an ImageNet class. Remove it.")
        super().__init__(root, size, crop, broken, synsets())


class AnyOf(ImageFolder):
    """Images of classes that stand for one or more others: labels [B], or [B,K] padded with -1."""

    partial = True

    def __init__(
        self,
        root: Path,
        groups: dict[str, list[int]],
        size: int,
        crop: Crop,
        broken: Broken,
        border: int = 0,
    ) -> None:
        rows = {name: row for row, name in enumerate(groups)}
        super().__init__(root, size, crop, broken, rows)
        self.dataset.border = border
        width = max(len(group) for group in groups.values())
        filled = [group + [-1] * (width - len(group)) for group in groups.values()]
        self.numbers = torch.tensor(filled).squeeze(1)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,size,size], labels int64 [B] or [B,K]."""
        images, row = super().load(index, seed)
        labels = self.numbers[row.clamp(min=0)]
        row = row.view(-1, *[1] * (labels.ndim - 1))
        return images, torch.where(row == UNREAD, row, labels)

    def labels_of(self, index: Tensor) -> Tensor:
        return self.numbers[super().labels_of(index)]


def has_synsets(root: str | Path) -> bool:
    """Whether some folder in `root` is named by an ImageNet synset."""
    return any(name in synsets() for name in class_folders(Path(root)))
