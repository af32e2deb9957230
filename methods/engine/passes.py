"""The updates for each batch: several steps, a sliding window of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ... import HoldfastError, in_range

if TYPE_CHECKING:
    from .base import TTAMethod


def updated(method: TTAMethod, images: Tensor) -> Tensor:
    """The logits [B,C] of images [B,3,H,W] from `update`, in `steps` passes, on the `window` if any.

    As in mariodoebler/test-time-adaptation, an update follows once all images of the window are new.
    """
    if method.lacks_source:  # no image was finite
        return method.predict(images)
    if method.window is None:
        return scored(method, images)
    state, size = method.state, len(images)
    past, seen = state["window"], state["seen"]
    window = images.clone() if past is None else torch.cat([past, images])
    window = window[-max(method.window, size) :]
    state["window"], state["seen"] = window[-method.window :], (seen + size) % method.window
    method.collecting = seen + size < method.window
    if method.collecting:
        method.last_step = None
        return method.predict(window)[-size:]
    return scored(method, window)[-size:]


def scored(method: TTAMethod, images: Tensor) -> Tensor:
    """The logits [B,C] to score for these images, after the method's last step."""
    logits = in_passes(method, images).detach()
    method.last_step = images, logits
    return method.corrected(logits)


def in_passes(method: TTAMethod, images: Tensor) -> Tensor:
    """The logits [B,C] of the last of the updates on these images, or on each of them."""
    if method.by_image and len(images) > 1:
        return torch.cat([in_passes(method, image) for image in method.singles(images)])
    if method.optimizer is None or "memory" in method.state:  # which repeats its updates itself
        return method.update(images)
    for _ in method.passes():
        logits = method.update(images)
    return logits


def check_passes(method: TTAMethod, state: dict[str, Any]) -> dict[str, Any]:
    """The state with the images of the window; raises HoldfastError if settings contradict each other."""
    window, name = method.window, type(method).__name__
    in_range(1, steps=method.steps)
    in_range(2, window=window)
    if window is None:
        return state
    if "memory" in state:
        raise HoldfastError(f"{name} already has a memory of images. Leave window out.")
    if method.by_image:
        raise HoldfastError(f"{name} adapts to each image separately. Leave window out.")
    return {**state, "window": None, "seen": 0}
