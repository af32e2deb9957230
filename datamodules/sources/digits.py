"""scikit-learn's scanned digits: a small data set that needs no download."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..counter import scramble
from .image_source import ImageSource, check_split


class Digits(ImageSource):
    """scikit-learn's 1,797 scanned handwritten digits, scaled from 8x8 to 32x32 RGB.

    The splits are disjoint: 1,000 images for training, 300 for calibration, 497 for the stream.
    """

    classes = 10
    size = 32

    def __init__(self, split: str = "stream") -> None:
        from sklearn.datasets import load_digits

        self.split = split
        number = check_split(split)
        data = load_digits()
        order = scramble(torch.arange(len(data.target))).argsort()
        members = order.split([1000, 300, len(order) - 1300])[number]
        scans = torch.from_numpy(data.images)[members, None] / 16
        scans = F.interpolate(scans, size=self.size, mode="bicubic").clamp(0, 1)
        self.images = (scans * 255).round().to(torch.uint8)
        self.labels = torch.from_numpy(data.target)[members].long()

    def __len__(self) -> int:
        return len(self.labels)

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index, seed: int64 [B] -> images uint8 [B,3,32,32], labels int64 [B]; no seed."""
        return self.images[index].repeat(1, 3, 1, 1), self.labels[index]

    def labels_of(self, index: Tensor) -> Tensor:
        return self.labels[index]
