"""Checks of a method's input images."""

from typing import Any

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn

from ... import HoldfastError
from ...callbacks.provenance import normalisation

OVERSHOOT = 0.1  # below 0, as interpolation may leave it


def check_images(images: Any, network: nn.Module, wanted: torch.dtype | None, first: bool) -> None:
    """Accept only batches [B,3,H,W] of the expected type in [0,1]; only the first one's range is checked.

    Warns of images below 0, which a network without a normalisation of its own may expect.

    Raises:
        HoldfastError: if the images have another form, are already normalised although the network
            normalises them, or are far outside the range of normalised images.
    """
    if not isinstance(images, Tensor):
        kind = f"{type(images).__module__}.{type(images).__name__}".removeprefix("builtins.")
        how = (
            "torch.stack(images)" if isinstance(images, list | tuple) else "torch.as_tensor(images)"
        )
        raise HoldfastError(
            f"images must be a torch.Tensor [B,3,H,W], not a {kind}. Pass {how} as float32 in [0,1]."
        )
    if images.ndim != 4 or images.shape[1] != 3 or not len(images):
        raise HoldfastError(
            f"images must be [B,3,H,W] with B of at least 1, not {list(images.shape)}. Put the channels "
            "first, repeat a single channel three times, and pass one image as a batch of 1."
        )
    if images.dtype != (wanted or images.dtype):
        scale = "" if images.is_floating_point() else " / 255"
        raise HoldfastError(
            f"The images are {images.dtype} and the model is {wanted}. Pass "
            f"images.to({wanted}){scale}."
        )
    if not first:  # a check would have to wait for the device
        return
    known = torch.where(images.isfinite(), images, 0)
    smallest, largest = torch.stack(known.aminmax()).tolist()
    if largest > 10:
        raise HoldfastError(
            f"The images have values up to {largest:.3g}. Pass images in [0,1]: divide bytes by "
            "255."
        )
    if smallest < -OVERSHOOT:
        if normalisation(network) is not None:
            raise HoldfastError(
                f"The images have values down to {smallest:.3g}, and the network normalises its "
                "inputs itself. Pass images in [0,1], not normalised ones."
            )
        rank_zero_warn(
            f"The images have values down to {smallest:.3g}, but methods expect [0,1]. Let the "
            "network subtract the mean and divide by the standard deviation: normalised(net, "
            "mean, std)."
        )


def first_dtype(network: nn.Module) -> torch.dtype | None:
    """The type of the network's first parameter; None if it has none."""
    return next((parameter.dtype for parameter in network.parameters()), None)
