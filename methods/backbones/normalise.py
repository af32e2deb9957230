"""Mean and standard deviation of the images, as the first layer of a network."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalise(nn.Module):
    """(images - mean) / std per channel; [B,3,H,W] in [0,1] in, the same shape out."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def normalised(net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> nn.Sequential:
    """`net` behind its normalisation, as children `normalise` and `net`; images in [0,1] in."""
    return nn.Sequential(OrderedDict(normalise=Normalise(mean, std), net=net))
