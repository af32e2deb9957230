"""Random corruption as a torchvision v2 transform: the engine's only module that imports torchvision."""

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import Transform
from torchvision.transforms.v2.functional import pil_to_tensor, to_pil_image

from ...imagenet import CORRUPTIONS
from . import corrupt
from .augmentation import Choice


class Corrupt(Transform):
    """Corrupt PIL images and tensors [...,3,H,W], uint8 or float in [0,1], on their device.

    A call draws one corruption and one severity; each image of a batch or video has a seed of its
    own. Boxes, masks, key points and labels pass unchanged: only `elastic_transform` moves pixels.

    Args:
        names: one corruption, or several from which one is drawn (default: the 15 of ImageNet-C).
        severity: a number from 0 to 5, or two between which one is drawn.
        table: parameters of "imagenet", "cifar" or "tinyimagenet".

    Raises:
        HoldfastError: if a name, severity, table or image is invalid.
    """

    def __init__(
        self,
        names: str | Sequence[str] = CORRUPTIONS,
        severity: float | Sequence[float] = (1, 5),
        table: str = "imagenet",
    ) -> None:
        super().__init__()
        self.choice = Choice(names, severity, table)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return dict(zip(("name", "severity", "seed"), self.choice.draw(), strict=True))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, Image.Image):
            return to_pil_image(self.transform(pil_to_tensor(inpt.convert("RGB")), params))
        if isinstance(inpt, tv_tensors.TVTensor) and not isinstance(
            inpt, tv_tensors.Image | tv_tensors.Video
        ):
            return inpt
        images = inpt.as_subclass(Tensor)
        batch = images.reshape(-1, *images.shape[-3:])
        seeds = params["seed"] + torch.arange(len(batch))
        batch = corrupt(batch, params["name"], params["severity"], seeds, self.choice.table)
        return tv_tensors.wrap(batch.view(images.shape), like=inpt)
