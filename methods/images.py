"""What a method refuses to take for images."""

import torch
from torch import Tensor, nn

from .. import HoldfastError


def check_images(images: Tensor, network: nn.Module) -> None:
    """Refuse what is no batch [B,3,H,W] of the network's type; asks only what costs nothing.

    Raises:
        HoldfastError: if it is something else.
    """
    if images.ndim != 4 or images.shape[1] != 3 or not len(images):
        raise HoldfastError(
            f"a method takes images [B,3,H,W], at least one, not {list(images.shape)}: repeat a single "
            "channel three times, put the channels first, give one image as a batch of one."
        )
    wanted = next((p.dtype for p in network.parameters()), images.dtype)
    if images.dtype != wanted:
        scale = "" if images.is_floating_point() else " / 255"
        raise HoldfastError(
            f"the images are {images.dtype} and the model {wanted}: give images.to({wanted}){scale}."
        )


def check_range(images: Tensor, network: nn.Module) -> None:
    """Refuse images that run from 0 to 255, too; waits for the device.

    Raises:
        HoldfastError: if they reach far beyond [0,1], and beyond what subtracting a mean makes of it.
    """
    check_images(images, network)
    largest = torch.where(images.isfinite(), images, 0).max()
    if largest > 10:
        raise HoldfastError(
            f"the images reach up to {largest:.3g}: give them in [0,1], images / 255 if they are bytes."
        )
