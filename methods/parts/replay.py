"""Source images that a method stores and uses again in every step."""

from typing import Any

import torch
from torch import Tensor


def kept(images: Tensor, labels: Tensor) -> dict[str, Any]:
    """Images [N,3,H,W] and labels [N] as state; images as uint8 if that is lossless."""
    in_bytes = (images * 255).round().clamp(0, 255).byte()
    exact = torch.equal(in_bytes.to(images.dtype) / 255, images)
    return {"images": in_bytes if exact else images, "labels": labels}


def replayed(source: dict[str, Any], first: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Source images [B,3,H,W] and labels [B], one for each row of `like`, cyclically from `first` on."""
    rows = (torch.arange(len(like), device=like.device) + first) % len(source["labels"])
    images = source["images"][rows]
    images = images if images.is_floating_point() else images.to(like.dtype) / 255
    return images, source["labels"][rows]
