"""Mean and standard deviation of the images, as the first layer of a network."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ... import HoldfastError


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
