"""A window of the newest images, for streams that deliver one image at a time."""

from typing import Any

import torch
from torch import Tensor

from .. import in_range


class Window:
    """Delivers the images of a step: those that arrive, or with a `size` the last `size` of the stream.

    Each forward pass is then on the window, and an update follows once all of its images are new, as in
    mariodoebler/test-time-adaptation. The images are in the method's state, so that they are reset, saved
    and restored with it.
    """

    def __init__(self, size: int | None) -> None:
        in_range(2, window=size)
        self.size = size

    def add(self, images: Tensor, state: dict[str, Any]) -> tuple[Tensor, bool]:
        """The images [N,3,H,W] of a step, which end with these images [B,3,H,W], and whether to update.

        The window's images, and the number of those without an update, are in `state`.
        """
        if self.size is None:
            return images, True
        past = state.get("window", {"images": images[:0], "new": 0})
        window = torch.cat([past["images"], images])[-max(self.size, len(images)) :]
        new = past["new"] + len(images)
        state["window"] = {"images": window[-self.size :], "new": new % self.size}
        return window, new >= self.size
