"""Tensors: copies between host and device, finite images, images as bytes."""

from functools import reduce

import torch
from torch import Tensor


def on_host(*tensors: Tensor) -> list[Tensor]:
    """Tensors of one shape on the CPU, by one transfer; integers must be below 2^24."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return list(tensors)
    kind = reduce(torch.promote_types, (t.dtype for t in tensors), torch.float32)
    whole = torch.stack([t.detach().to(kind) for t in tensors]).cpu()
    return [part.to(tensor.dtype) for part, tensor in zip(whole, tensors, strict=True)]


def on_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy values [...] of the host to a device without waiting for what the device still computes."""
    # MPS would read them when they may be gone (pytorch/pytorch#189690).
    if device.type in ("cpu", "mps") or values.device == device:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def finite_images(images: Tensor) -> Tensor:
    """Which images [B,...] contain neither NaN nor infinity, [B] bool."""
    return images.flatten(1).isfinite().all(1)


def compact(images: Tensor) -> Tensor:
    """Images [B,3,H,W] in [0,1] as bytes, if that is lossless."""
    as_bytes = images.mul(255).round().to(torch.uint8)
    return as_bytes if torch.equal(expanded(as_bytes), images) else images.clone()


def expanded(images: Tensor) -> Tensor:
    """The images [B,3,H,W] in [0,1] that `compact` may have stored as bytes."""
    return images.float() / 255 if images.dtype == torch.uint8 else images
