"""What a method refuses to take for images."""

import torch
from torch import Tensor, nn

from .. import HoldfastError


def check_images(images: Tensor, network: nn.Module, first: bool) -> None:
    """Refuse what is no batch [B,3,H,W] of the network's type in [0,1]; the range of the first only.

    Raises:
        HoldfastError: if the images are something else, or reach far beyond what is left of [0,1] when a
            mean is subtracted and divided by a standard deviation.
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
    if not first:  # the device would have to be waited for
        return
    largest = torch.where(images.isfinite(), images, 0).max()
    if largest > 10:
        raise HoldfastError(
            f"the images reach up to {largest:.3g}: give them in [0,1], images / 255 if they are bytes."
        )
